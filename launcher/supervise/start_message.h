// SPDX-License-Identifier: Apache-2.0
// Composes what an agent is told to start: its learner's command, environment, log and limits.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/plan/launch_plan.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/job_dir.h"
#include "launcher/supervise/attempt.h"

namespace dl::supervise {

// What dlrun was told about its run, the same for each learner.
struct StartSettings {
  bool quiet = false, debug = false;  // as in RunOptions
  int run = 0;                        // its number, if other runs of the job write to the same place; else 0
  int64_t hang_ms = 0;                // as in RunOptions
  uint64_t log_limit = 0;             // bytes; as in dl.toml
  int64_t gpu_look_ms = 0;            // how often the use of GPUs is measured; 0: never
  int64_t use_ms = 0;                 // how often agents tell what their learners use; 0: never
  int passed_signal = 0;              // that agents pass on to their learners; 0: none
  std::string lease;                  // on the checkpoint directory; empty: none
};

// For the learner `rank` of this attempt, all of whose agents have come. Reads PYTHONBREAKPOINT from the environment.
protocol::Start start_message(const plan::LaunchPlan& plan, const Attempt& attempt, const record::JobDir& dir, int rank,
                              const StartSettings& settings);

}  // namespace dl::supervise
