// SPDX-License-Identifier: Apache-2.0
// How long the end of a run waits for its newest checkpoint to reach the object store. Pure.
//
// A large checkpoint over a slow line may take hours, and nobody else sends it once the run is over. So the wait has no
// limit of its own as long as bytes move: that is the job's. It ends if nothing moves for a while, and soon if somebody
// waits for the job's GPUs, since the next attempt sends it then.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace dl::ckpt {

class SendPatience {
 public:
  static constexpr double kAfterStop_s = 5;

  // still_s: for so long nothing may move.
  SendPatience(double now_s, double still_s) : still_s_(still_s), moved_at_s_(now_s) {}

  // moved: has grown if bytes have moved. stop: whether the job has been asked to end. Returns why the wait is over; ""
  // if it is not.
  std::string over(double now_s, uint64_t moved, bool stop) {
    if (moved != moved_) moved_ = moved, moved_at_s_ = now_s;
    if (stop && !stopped_) stopped_ = true, stop_at_s_ = now_s;
    if (stopped_ && now_s - stop_at_s_ >= kAfterStop_s) return "the job was asked to end before it was sent";
    if (now_s - moved_at_s_ >= still_s_) return fmt::format("nothing moved for {} s", still_s_);
    return std::string();
  }

 private:
  double still_s_, moved_at_s_;
  uint64_t moved_ = 0;
  double stop_at_s_ = 0;
  bool stopped_ = false;
};

}  // namespace dl::ckpt
