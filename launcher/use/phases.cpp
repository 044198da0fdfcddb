// SPDX-License-Identifier: Apache-2.0
#include "launcher/use/phases.h"

#include <algorithm>

namespace dl::use {

const char* phase_name(Phase phase) {
  constexpr const char* kNames[kPhases] = {"waiting", "starting", "training", "saving"};
  return kNames[static_cast<size_t>(phase)];
}

void PhaseClock::enter(Phase phase, int64_t now_ms) {
  if (runs_ && phase == phase_) return;
  if (runs_) passed_[static_cast<size_t>(phase_)] += static_cast<double>(std::max<int64_t>(0, now_ms - since_ms_));
  runs_ = true;
  phase_ = phase;
  since_ms_ = now_ms;
  spans_.push_back({phase, now_ms});
  if (spans_.size() > kKept) spans_.pop_front();
}

PerPhase PhaseClock::milliseconds(int64_t now_ms) const {
  PerPhase passed = passed_;
  if (runs_) passed[static_cast<size_t>(phase_)] += static_cast<double>(std::max<int64_t>(0, now_ms - since_ms_));
  return passed;
}

PerPhase PhaseClock::shares(int64_t from_ms, int64_t to_ms) const {
  PerPhase shares{};
  if (to_ms <= from_ms || spans_.empty()) {
    shares[static_cast<size_t>(phase_)] = 1;
    return shares;
  }
  const auto whole = static_cast<double>(to_ms - from_ms);
  for (size_t i = 0; i < spans_.size(); ++i) {
    const int64_t begin = i == 0 ? from_ms : std::max(from_ms, spans_[i].from_ms);
    const int64_t end = i + 1 < spans_.size() ? std::min(to_ms, spans_[i + 1].from_ms) : to_ms;
    if (end > begin) shares[static_cast<size_t>(spans_[i].phase)] += static_cast<double>(end - begin) / whole;
  }
  return shares;
}

}  // namespace dl::use
