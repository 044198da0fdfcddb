// SPDX-License-Identifier: Apache-2.0
// A hang of an attempt's learners: when one makes no progress, all of them write down what they are doing, and the one
// for which the others wait is named. None is looked for while the run stops, since a stop has a deadline of its own.
// Times are of the awake clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervise/agent_fleet.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/hang.h"
#include "launcher/supervise/run_state.h"

namespace dl::supervise {

class HangWatch {
 public:
  // Borrows both. hang_ms: after how long without progress a learner counts as stalled.
  HangWatch(const Attempt* attempt, const RunState* state, int64_t hang_ms)
      : attempt_(attempt), state_(*state), hang_ms_(hang_ms) {}

  // A new attempt begins: forgets a hang of the last one. agents: borrowed. folder: where its learners' stack traces
  // go.
  void begin_attempt(AgentFleet* agents, std::string folder);

  // A learner makes no progress. Asks all that run for their stacks, and returns the sentence for the user; empty if
  // that is under way already, or the run stops.
  std::string stalled(int rank, const protocol::Stalled& stalled, int64_t now_ms);
  // An agent's answer. True: all that can answer have, so settle() is to be called.
  bool answered(int rank, const protocol::StandingStill& still);
  // True once agents have had 10 s for their answers: settle() is to be called.
  bool is_overdue(int64_t now_ms) const { return open_ && now_ms > deadline_ms_; }

  // The hang is over. Returns the failure of the learner to blame, with its rank; none if no learner that the others
  // could wait for still runs, or if all are to end by now. For learners that have not answered, their last report
  // counts.
  std::optional<Failure> settle();

 private:
  bool runs(size_t rank) const;

  const Attempt* attempt_;
  const RunState& state_;
  int64_t hang_ms_;
  AgentFleet* agents_ = nullptr;
  std::string folder_;
  bool open_ = false;
  int64_t deadline_ms_ = 0;
  std::vector<StandStill> standing_still_;
  std::map<int, std::vector<std::string>> lines_;  // by rank: the last lines of its log
};

}  // namespace dl::supervise
