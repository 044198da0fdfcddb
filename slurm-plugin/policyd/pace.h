// SPDX-License-Identifier: Apache-2.0
// How much of slurmctld's time dlpolicyd takes. Limits how many gates that can wait are set in a round. A gate is a
// message to slurmctld; a long queue has thousands of gates. How long slurmctld takes for one depends on the machine
// and on the queue (measured: 0.3 to 1.6 ms of CPU time), so the pace follows from how long the last ones took. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "slurm-plugin/policy/wanted.h"

namespace dl::policyd {

// How long dlpolicyd waits after a round. A look at a long queue takes slurmctld tens of milliseconds, so it comes the
// less often the longer it takes: of slurmctld's time it takes kShare, not more. The shortest of the last looks counts:
// others waited for locks, or for a machine that had other work.
class LookPace {
 public:
  static constexpr double kShare = 0.0175;
  static constexpr std::chrono::milliseconds kLongest{5000};  // also if slurmctld takes still longer
  void took(std::chrono::duration<double> look) { last_[next_++ % last_.size()] = look; }
  std::chrono::milliseconds pause(std::chrono::milliseconds interval) const {
    const auto shortest = *std::min_element(last_.begin(), last_.end());
    const auto wanted = std::chrono::duration_cast<std::chrono::milliseconds>(shortest / kShare);
    return std::max(interval, std::min(wanted, kLongest));
  }

 private:
  std::array<std::chrono::duration<double>, 8> last_{};  // 0: there was none yet
  size_t next_ = 0;
};

class GatePace {
 public:
  using Seconds = std::chrono::duration<double>;
  static constexpr double kShare = 0.016;  // of slurmctld's time: looks at a long queue take as much by themselves
  static constexpr double kMost = 130;     // a second
  static constexpr double kFirst = 15;     // before it is known how long a gate takes
  // However slow slurmctld is: enough to renew all gates (twice in far_gate_s(), see wanted.h), and for some new ones.
  static constexpr double least(size_t jobs) {
    constexpr double kRenewals = 2.0 / policy::kLongestGateS;
    return std::max(kFirst, 5 + kRenewals * static_cast<double>(jobs));
  }
  double per_second(size_t jobs) const {
    const double pace = gate_ > Seconds(0) ? kShare / gate_.count() : kFirst;
    return std::clamp(pace, std::min(kMost, least(jobs)), kMost);
  }
  // A gate was set, which took so long. One slow answer says little: slurmctld's backfill may hold its locks.
  void took(Seconds gate) {
    constexpr Seconds kSlowest(kShare / kFirst);
    constexpr double kNewest = 0.05;  // the last one's weight in the mean
    gate = std::clamp(gate, Seconds(1e-6), kSlowest);
    gate_ = gate_ > Seconds(0) ? gate_ + kNewest * (gate - gate_) : gate;
  }

  // A round begins; `pause`: how long after the one before it was meant to. There may be as many gates as in two
  // seconds more than that, however late it comes.
  void begin(std::chrono::steady_clock::time_point now, size_t jobs, std::chrono::milliseconds pause) {
    const double pace = per_second(jobs);
    const double seconds = began_ ? Seconds(now - last_).count() : 1;
    left_ = std::min((2 + Seconds(pause).count()) * pace, left_ + pace * std::max(0.0, seconds));
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
  Seconds gate_{0};  // the mean; 0: none was set yet
  double left_ = 0;
  std::chrono::steady_clock::time_point last_;
  bool began_ = false;
};

}  // namespace dl::policyd
