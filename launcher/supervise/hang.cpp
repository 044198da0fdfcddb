// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/hang.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace dl::supervise {
namespace {

// The lower, the more suspicious the state. A learner that waits for another one sleeps in a poll or a futex.
size_t waits(char state) {
  constexpr std::string_view kOrder = "TtDR";
  return std::min(kOrder.find(state), kOrder.size());
}

const char* state_words(char state) {
  switch (state) {
    case 'T':
    case 't':
      return ", stopped by a signal";
    case 'D':
      return ", waiting for a disk or a device";
    default:
      return "";
  }
}

}  // namespace

std::optional<BehindLearner> who_is_behind(const std::vector<StandStill>& learners) {
  if (learners.empty()) return std::nullopt;
  const auto least = std::min_element(learners.begin(), learners.end(), [](const StandStill& a, const StandStill& b) {
    if (a.step != b.step) return a.step < b.step;
    if (waits(a.state) != waits(b.state)) return waits(a.state) < waits(b.state);
    return a.silent_ms > b.silent_ms;
  });
  int64_t newest = least->step;
  for (const StandStill& learner : learners) newest = std::max(newest, learner.step);
  std::string text = fmt::format("no progress for {} s", least->silent_ms / 1000);
  if (least->step >= 0) text += fmt::format(" at train step {}", least->step);
  if (newest > least->step) text += fmt::format(", where others are at {}", newest);
  return BehindLearner{least->rank, text + state_words(least->state)};
}

}  // namespace dl::supervise
