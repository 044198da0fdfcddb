// SPDX-License-Identifier: Apache-2.0
// Learners that make no progress: all of them write down what they are doing, then the one that the others wait for is
// named, and the attempt ends as after any failure.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

constexpr int64_t kStacksLimitMs = 10000;

}  // namespace

void Supervisor::on_stalled(int rank, const Stalled& stalled) {
  // A stop has its own deadline.
  if (hang_open_ || killing_ || stop_ || phase_ != Phase::kRunning) return;
  hang_open_ = true;
  hang_deadline_ms_ = monotonic_ms() + kStacksLimitMs;
  standing_still_.clear();
  still_lines_.clear();
  say(fmt::format("learner {} has made no progress for {} s; writing stack traces to {}", rank,
                  stalled.silent_ms / 1000, dir_.attempt_logs(attempt_)));
  for (size_t i = 0; i < learners_.size(); ++i) {
    if (learners_[i].ended || learners_[i].connection == 0) continue;
    server_->send(learners_[i].connection,
                  Stacks{fmt::format("{}/learner-{}.stacks.txt", dir_.attempt_logs(attempt_), i)});
  }
}

void Supervisor::on_standing_still(int rank, const StandingStill& still) {
  if (!hang_open_) return;
  standing_still_.push_back({rank, still.step, still.state.empty() ? '?' : still.state[0], still.silent_ms});
  still_lines_[rank] = still.last_lines;
  const auto alive =
      std::count_if(learners_.begin(), learners_.end(), [](const Learner& l) { return !l.ended && l.connection != 0; });
  if (static_cast<int64_t>(standing_still_.size()) >= alive) settle_hang();
}

void Supervisor::settle_hang() {
  hang_open_ = false;
  if (killing_ || phase_ != Phase::kRunning) return;
  // One that did not answer in time is known by what it reported before.
  for (size_t i = 0; i < learners_.size(); ++i) {
    const int rank = static_cast<int>(i);
    const bool answered = std::any_of(standing_still_.begin(), standing_still_.end(),
                                      [rank](const StandStill& each) { return each.rank == rank; });
    if (!answered && !learners_[i].ended) standing_still_.push_back({rank, learners_[i].step, '?', options_.hang_ms});
  }
  standing_still_.erase(std::remove_if(standing_still_.begin(), standing_still_.end(),
                                       [this](const StandStill& each) { return plan_.serves(each.rank); }),
                        standing_still_.end());
  const auto behind = who_is_behind(standing_still_);
  if (!behind) return;
  learners_[static_cast<size_t>(behind->rank)].hung = true;
  Failure failure;
  failure.kind = Failure::Kind::kHang;
  failure.text = behind->text;
  failure.last_lines = still_lines_[behind->rank];
  learner_failed(behind->rank, failure);
}

}  // namespace dl::supervise
