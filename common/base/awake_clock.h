// SPDX-License-Identifier: Apache-2.0
// Time in which a process could run. A suspended job (scontrol suspend, gang scheduling, a frozen node) stands still as
// a whole, for hours perhaps: dlrun, its agents, the learners. Whoever waits for another one of them by this clock
// takes nobody for late, hung or dead when all go on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/clock.h"

namespace dl {

// Not for several threads at once.
class AwakeClock {
 public:
  // What passes between two looks counts as this much at most. So look at it far more often.
  static constexpr int64_t kMostMs = 500;

  // now_ms: of a monotonic clock. Begins with it, and never goes back.
  int64_t at(int64_t now_ms) {
    awake_ms_ = last_ms_ < 0 ? now_ms : awake_ms_ + std::clamp<int64_t>(now_ms - last_ms_, 0, kMostMs);
    last_ms_ = std::max(last_ms_, now_ms);
    return awake_ms_;
  }

 private:
  int64_t last_ms_ = -1, awake_ms_ = 0;
};

// The one of the calling thread, in milliseconds from some moment on. Its loop must call it more often than kMostMs.
inline int64_t awake_ms() {
  thread_local AwakeClock clock;
  return clock.at(monotonic_ms());
}

}  // namespace dl
