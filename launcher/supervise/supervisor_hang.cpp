// SPDX-License-Identifier: Apache-2.0
// Learners that make no progress: all of them write down what they are doing, the learner for which the others wait is
// named, and the attempt ends as after any failure.
#include <fmt/core.h>

#include <algorithm>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int64_t kStacksLimitMs = 10000;

}  // namespace

void Supervisor::on_stalled(int rank, const Stalled& stalled) {
  // A stop has its own deadline, so hangs are looked for only before one.
  if (attempt_.hang.open || state_.phase != Phase::kRunning) return;
  attempt_.hang.open = true;
  attempt_.hang.deadline_ms = awake_ms() + kStacksLimitMs;
  attempt_.hang.standing_still.clear();
  attempt_.hang.lines.clear();
  voice_.say(fmt::format("learner {} has made no progress for {} s; writing stack traces to {}", rank,
                         stalled.silent_ms / 1000, dir_.attempt_logs(attempts_)));
  for (size_t i = 0; i < attempt_.learners().size(); ++i) {
    const int each = static_cast<int>(i);
    if (attempt_.learners()[i].ended || !agents_->has(each)) continue;
    agents_->tell(each, Stacks{fmt::format("{}/learner-{}.stacks.txt", dir_.attempt_logs(attempts_), i)});
  }
}

void Supervisor::on_standing_still(int rank, const StandingStill& still) {
  if (!attempt_.hang.open) return;
  attempt_.hang.standing_still.push_back(
      {rank, still.step, still.state.empty() ? '?' : still.state[0], still.silent_ms});
  attempt_.hang.lines[rank] = still.last_lines;
  int64_t alive = 0;
  for (size_t i = 0; i < attempt_.learners().size(); ++i)
    alive += !attempt_.learners()[i].ended && agents_->has(static_cast<int>(i)) ? 1 : 0;
  if (static_cast<int64_t>(attempt_.hang.standing_still.size()) >= alive) settle_hang();
}

void Supervisor::settle_hang() {
  attempt_.hang.open = false;
  if (!state_.running()) return;
  // For a learner that did not answer in time, its last report counts.
  for (size_t i = 0; i < attempt_.learners().size(); ++i) {
    const int rank = static_cast<int>(i);
    const bool answered = std::any_of(attempt_.hang.standing_still.begin(), attempt_.hang.standing_still.end(),
                                      [rank](const StandStill& each) { return each.rank == rank; });
    if (!answered && !attempt_.learners()[i].ended)
      attempt_.hang.standing_still.push_back({rank, attempt_.learners()[i].step, '?', options_.hang_ms});
  }
  attempt_.hang.standing_still.erase(
      std::remove_if(attempt_.hang.standing_still.begin(), attempt_.hang.standing_still.end(),
                     [this](const StandStill& each) { return plan().serves(each.rank); }),
      attempt_.hang.standing_still.end());
  const auto behind = who_is_behind(attempt_.hang.standing_still);
  if (!behind) return;
  attempt_.blame_for_hang(behind->rank);
  Failure failure;
  failure.kind = Failure::Kind::kHang;
  failure.text = behind->text;
  failure.last_lines = attempt_.hang.lines[behind->rank];
  learner_failed(behind->rank, failure);
}

}  // namespace dl::supervise
