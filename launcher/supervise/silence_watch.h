// SPDX-License-Identifier: Apache-2.0
// Finds agents that have become silent although their node acknowledges what it is sent. A node's kernel keeps a
// connection alive even while the agent is stopped, frozen or starved, and such an agent reports neither its learner's
// end nor a hang. So the agent's own messages are waited for as well; it pings each half second. A suspended job is
// spared, because its nodes go on one after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "launcher/supervise/agent_fleet.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/slurm_job.h"

namespace dl::supervise {

class SilenceWatch {
 public:
  using Found = std::function<void(const Failure& failure)>;
  // All are borrowed. limit: how long an agent may be silent. found: gets the failure of a learner whose agent counts
  // as silent, with its rank.
  SilenceWatch(AgentFleet* agents, SlurmJob* slurm, const Attempt* attempt, const RunState* state,
               std::chrono::seconds limit, Found found)
      : agents_(agents), slurm_(slurm), attempt_(*attempt), state_(*state), limit_(limit), found_(std::move(found)) {}

  // To be called each second. now_ms: of the awake clock. If agents are silent, Slurm is asked whether the job is
  // suspended. When it has answered, `found` is called for each that is silent still: for none if it is suspended, or
  // if the learners of that attempt have ended by then. Once the run is ending, also because of the first of them, a
  // failure counts as asked for.
  void look(int64_t now_ms);

 private:
  AgentFleet* agents_;
  SlurmJob* slurm_;
  const Attempt& attempt_;
  const RunState& state_;
  std::chrono::seconds limit_;
  Found found_;
};

}  // namespace dl::supervise
