// SPDX-License-Identifier: Apache-2.0
// What the states of a run (run_state.h) tell learners: each action becomes a message to their agents.
#pragma once

#include "launcher/supervise/agent_fleet.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/run_state.h"

namespace dl::supervise {

class LearnerOrders {
 public:
  // Both are borrowed.
  LearnerOrders(AgentFleet* agents, const Attempt* attempt) : agents_(agents), attempt_(*attempt) {}

  // To learners that decide (LaunchPlan::deciding()) and have not ended.
  void perform(const SendRequest& request);
  // To all learners that have not ended.
  void perform(const SendDecide& decide);
  void perform(const SendWithdraw& withdraw);
  void perform(const SignalLearners& signal);
  void perform(const KillLearners& kill);

 private:
  AgentFleet* agents_;
  const Attempt& attempt_;
};

}  // namespace dl::supervise
