// SPDX-License-Identifier: Apache-2.0
// How many gates are set in a round. A gate is a message to slurmctld, which takes it some 0.3 ms of CPU time; the
// first look at a long queue has thousands of them, and nobody waits for them: what starts jobs is sent before. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "slurm-plugin/policyd/planner.h"

namespace dl::policyd {

// Whether all that the action does is to keep a job waiting for longer.
inline bool only_gates(const Action& action, int64_t now_s) {
  if (action.kind != ActionKind::kOrder || action.update.begin_s.value_or(0) <= now_s) return false;
  observe::JobUpdate others = action.update;
  others.begin_s.reset();
  return others.empty();
}

class GatePace {
 public:
  static constexpr size_t kPerSecond = 130;  // at 0.3 ms each: 4 % of a core
  static constexpr size_t kWithinS = 9;  // more than are set in this time are not spread: the first look stays short

  // A round begins that would set so many gates. After a pause there may be as many as in two seconds, no more.
  void begin(std::chrono::steady_clock::time_point now, size_t wanted) {
    at_once_ = wanted > (at_once_ ? kPerSecond : kPerSecond * kWithinS);
    const double seconds = began_ ? std::chrono::duration<double>(now - last_).count() : 1;
    left_ = std::min(2.0 * kPerSecond, left_ + kPerSecond * std::max(0.0, seconds));
    last_ = now;
    began_ = true;
  }
  // Whether one more may be set in this round; then it counts.
  bool take() {
    if (at_once_) return true;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  bool at_once_ = false;
  double left_ = 0;
  std::chrono::steady_clock::time_point last_;
  bool began_ = false;
};

}  // namespace dl::policyd
