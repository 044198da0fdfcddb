// SPDX-License-Identifier: Apache-2.0
// Finds learners that need longer for a train step than the others. Pure.
//
// Where each train step ends in a collective, all learners go at the pace of the slowest, and none stands out: then
// this finds nothing. It finds the slow one of learners that wait for one another less often (several train steps
// between exchanges, bounded staleness, pipelines, independent learners).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace dl::supervise {

// The time of a train step of one learner, over its newest kWindow reports.
class StepTimes {
 public:
  static constexpr size_t kWindow = 20, kFewest = 5;

  // The learner was seen at this train step; at_ms: any monotonic clock. A lower train step than before discards the
  // older reports.
  void add(int64_t at_ms, int64_t step);
  // Milliseconds; none before there are kFewest intervals.
  std::optional<double> median_ms() const;
  // The same as an average, without reports that took much longer than most (saves, evaluations). A report comes about
  // each second, with a whole number of train steps, so the median of few steps is off by a part of one. None as above.
  std::optional<double> steady_ms() const;
  double spread_ms() const;                 // median absolute deviation from the median; 0 without reports
  int64_t steps() const { return steps_; }  // train steps seen in all

 private:
  int64_t last_ms_ = 0, last_step_ = -1, steps_ = 0;
  std::deque<double> each_ms_;
  std::deque<int64_t> in_each_;  // train steps of each report
};

struct Straggler {
  int rank = 0;
  double step_ms = 0, usual_ms = 0;
  int compared = 0;  // number of learners whose times are known
};

// step_ms: by rank; none: not known. At least three are needed to compare. A straggler is above the median of all by
// more than max(5 MAD, a quarter of the median).
std::vector<Straggler> find_stragglers(const std::vector<std::optional<double>>& step_ms);

// "slow: its train step takes 180 ms, the median of 8 learners is 100 ms"
std::string describe(const Straggler& straggler);

// A learner counts as slow once kTimes looks in a row found it to be a straggler, and until kTimes in a row did not.
class SlowLearners {
 public:
  static constexpr int kTimes = 3;

  explicit SlowLearners(size_t count = 0) : learners_(count) {}
  // stragglers: of this look, by rank. Returns those that now count as slow and did not before.
  std::vector<Straggler> look(const std::vector<Straggler>& stragglers);
  // The newest note about this learner; empty if it is not slow.
  const std::string& note(size_t rank) const { return learners_[rank].note; }

 private:
  struct State {
    int in = 0, out = 0;
    std::string note;
  };
  std::vector<State> learners_;
};

}  // namespace dl::supervise
