// SPDX-License-Identifier: Apache-2.0
// Bounded waiting: a point in time by the monotonic clock, and pauses that start short.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace dl::ckpt {

class Deadline {
 public:
  explicit Deadline(double seconds)
      : at_(Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8)))) {
  }
  bool passed() const { return Clock::now() >= at_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point at_;
};

// Pauses that grow from 0.2 to 20 ms: short waits end soon, long ones cost nothing.
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
