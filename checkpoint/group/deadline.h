// SPDX-License-Identifier: Apache-2.0
// Waiting with a time limit, measured by a clock that stands still while the job is suspended.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/base/awake_clock.h"

namespace dl::ckpt {

// passed() must be called after each short pause.
class Deadline {
 public:
  explicit Deadline(double seconds)
      : at_ms_(clock_.at(monotonic_ms()) + static_cast<int64_t>(1000 * std::clamp(seconds, 0.0, 1e8))) {}
  bool passed() { return clock_.at(monotonic_ms()) >= at_ms_; }

 private:
  AwakeClock clock_;
  int64_t at_ms_;
};

// Pauses that grow from 0.2 to 20 ms, so that short waits end soon and long ones cost little.
class Pause {
 public:
  void wait() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 3 / 2, std::chrono::microseconds(20000));
  }

 private:
  std::chrono::microseconds next_{200};
};

}  // namespace dl::ckpt
