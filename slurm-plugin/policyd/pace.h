// SPDX-License-Identifier: Apache-2.0
// Limits how many gates that can wait are set in a round. A gate is a message to slurmctld, which takes it some 0.3 ms
// of CPU time, and over 1 ms where 10,000 jobs wait; a long queue has thousands of gates. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace dl::policyd {

class GatePace {
 public:
  // Measured (tests/bench/README.md): about 3 % of a core with 2,000 jobs, and with 10,000 jobs 4 to 8 % where 50 were
  // set a second: too many, as the look at such a queue takes slurmctld a few percent of a core by itself.
  static constexpr size_t kMost = 130;           // a second
  static constexpr size_t kLeast = 30;           // with 10,000 jobs: enough to renew all gates, and for some new ones
  static constexpr size_t kLeastOfLongest = 50;  // the same with 20,000 jobs
  static constexpr size_t kJobsEach = 75;        // this many jobs in the queue cost the time of one gate a second
  static constexpr size_t per_second(size_t jobs) {
    return std::max(std::clamp(jobs / 400, kLeast, kLeastOfLongest), kMost - std::min(kMost, jobs / kJobsEach));
  }

  // A round begins. After a pause there may be as many gates as in two seconds, no more.
  void begin(std::chrono::steady_clock::time_point now, size_t jobs) {
    const auto pace = static_cast<double>(per_second(jobs));
    const double seconds = began_ ? std::chrono::duration<double>(now - last_).count() : 1;
    left_ = std::min(2 * pace, left_ + pace * std::max(0.0, seconds));
    last_ = now;
    began_ = true;
  }
  // Whether one more may be set in this round; then it counts.
  bool take() {
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double left_ = 0;
  std::chrono::steady_clock::time_point last_;
  bool began_ = false;
};

}  // namespace dl::policyd
