// SPDX-License-Identifier: Apache-2.0
// Measures from time to time what a learner and all that it has started use: CPU time, memory, and what they read from
// storage and write to it. What the kernel does not tell stays unmeasured.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/protocol/control_protocol.h"

namespace dl::agent {

class UseSampler {
 public:
  // The learner begins. speaks_for: learners of this node, if this agent is the first one there; else 0. The first
  // agent of a node measures the memory of the job step on it, where Slurm has given the step a control group.
  void start(int64_t look_ms, int speaks_for, int64_t now_ms);
  // What was used since the last look, if a look is due. helpers: children of this process that are not the learner's.
  std::optional<protocol::Use> look(const std::vector<pid_t>& helpers, int64_t now_ms);
  // The learner has ended: its CPU time since the last look; memory and storage cannot be told any more. cpu_ms: of the
  // learner and all its children, from its start to its end; less than 0: unknown.
  std::optional<protocol::Use> last(int64_t cpu_ms, int64_t now_ms);

 private:
  void add_memory(const std::vector<pid_t>& pids, protocol::Use* use) const;

  int64_t look_ms_ = 0, waited_ms_ = 0;
  int64_t looked_ms_ = 0, due_ms_ = 0;
  int speaks_for_ = 0;
  std::string group_;                 // the step's memory.stat; empty: none
  int64_t cpu_ms_ = 0, told_ms_ = 0;  // at the last look; told in all
  int64_t read_ = 0, written_ = 0;    // at the last look
};

}  // namespace dl::agent
