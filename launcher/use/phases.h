// SPDX-License-Identifier: Apache-2.0
// In which phase a run is, and for how long it was in each. Pure: times are of one clock that never goes back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace dl::use {

enum class Phase {
  kWaiting,   // for nodes, agents, or the next attempt: not all learners run
  kStarting,  // all learners run, and none has announced a train step
  kTraining,
  kSaving,  // the same, and a learner is held up by a save
};
constexpr size_t kPhases = 4;
const char* phase_name(Phase phase);  // static: "waiting", "starting", "training", "saving"

using PerPhase = std::array<double, kPhases>;

class PhaseClock {
 public:
  // The run is in this phase from now on. The first call begins the clock.
  void enter(Phase phase, int64_t now_ms);
  Phase phase() const { return phase_; }
  PerPhase milliseconds(int64_t now_ms) const;  // since the beginning
  // Which parts of a time that has passed belong to which phase: they are 1 together. Only the last kKept changes are
  // known; what lies before them counts as the oldest one.
  static constexpr size_t kKept = 256;
  PerPhase shares(int64_t from_ms, int64_t to_ms) const;

 private:
  struct Span {
    Phase phase;
    int64_t from_ms;
  };
  bool runs_ = false;
  Phase phase_ = Phase::kWaiting;
  int64_t since_ms_ = 0;
  PerPhase passed_{};
  std::deque<Span> spans_;
};

}  // namespace dl::use
