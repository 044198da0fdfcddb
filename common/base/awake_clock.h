// SPDX-License-Identifier: Apache-2.0
// A clock that stands still while the process is suspended. A suspended job (scontrol suspend, gang scheduling, a
// frozen node) stops as a whole, perhaps for hours: dlrun, its agents and the learners. Time-outs among them that use
// this clock do not expire when the job goes on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/clock.h"

namespace dl {

// Only one thread may use an object of this class.
class AwakeClock {
 public:
  // The longest time that the clock advances between two calls of at(), so at() must be called far more often.
  static constexpr int64_t kMostMs = 500;

  // `now_ms` is the time of a monotonic clock. The first call returns it; later results never go back.
  int64_t at(int64_t now_ms) {
    awake_ms_ = last_ms_ < 0 ? now_ms : awake_ms_ + std::clamp<int64_t>(now_ms - last_ms_, 0, kMostMs);
    last_ms_ = std::max(last_ms_, now_ms);
    return awake_ms_;
  }

 private:
  int64_t last_ms_ = -1, awake_ms_ = 0;
};

// The clock of the calling thread, in milliseconds since an arbitrary moment. The thread's loop must call it at least
// every kMostMs.
inline int64_t awake_ms() {
  thread_local AwakeClock clock;
  return clock.at(monotonic_ms());
}

}  // namespace dl
