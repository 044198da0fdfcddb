// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/hang_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int64_t kStacksLimitMs = 10000;

}  // namespace

void HangWatch::begin_attempt(AgentFleet* agents, std::string folder) {
  agents_ = agents;
  folder_ = std::move(folder);
  open_ = false;
  standing_still_.clear();
  lines_.clear();
}

// Whether this learner runs, and its agent can be asked.
bool HangWatch::runs(size_t rank) const {
  return !attempt_->learners()[rank].ended && agents_->has(static_cast<int>(rank));
}

std::string HangWatch::stalled(int rank, const Stalled& stalled, int64_t now_ms) {
  if (open_ || state_.phase != Phase::kRunning) return {};
  open_ = true;
  deadline_ms_ = now_ms + kStacksLimitMs;
  standing_still_.clear();
  lines_.clear();
  for (size_t i = 0; i < attempt_->learners().size(); ++i)
    if (runs(i)) agents_->tell(static_cast<int>(i), Stacks{fmt::format("{}/learner-{}.stacks.txt", folder_, i)});
  return fmt::format("learner {} has made no progress for {} s; writing stack traces to {}", rank,
                     stalled.silent_ms / 1000, folder_);
}

bool HangWatch::answered(int rank, const StandingStill& still) {
  if (!open_) return false;
  standing_still_.push_back({rank, still.step, still.state.empty() ? '?' : still.state[0], still.silent_ms});
  lines_[rank] = still.last_lines;
  size_t alive = 0;
  for (size_t i = 0; i < attempt_->learners().size(); ++i) alive += runs(i) ? 1 : 0;
  return standing_still_.size() >= alive;
}

std::optional<Failure> HangWatch::settle() {
  open_ = false;
  if (!state_.running()) return std::nullopt;
  for (size_t i = 0; i < attempt_->learners().size(); ++i) {
    const int rank = static_cast<int>(i);
    const bool answered = std::any_of(standing_still_.begin(), standing_still_.end(),
                                      [rank](const StandStill& each) { return each.rank == rank; });
    const Learner& learner = attempt_->learners()[i];
    if (!answered && !learner.ended) standing_still_.push_back({rank, learner.step, '?', hang_ms_});
  }
  standing_still_.erase(std::remove_if(standing_still_.begin(), standing_still_.end(),
                                       [this](const StandStill& each) { return attempt_->serves(each.rank); }),
                        standing_still_.end());
  const auto behind = who_is_behind(standing_still_);
  if (!behind) return std::nullopt;
  Failure failure;
  failure.kind = Failure::Kind::kHang;
  failure.rank = behind->rank;
  failure.text = behind->text;
  failure.last_lines = lines_[behind->rank];
  return failure;
}

}  // namespace dl::supervise
