// SPDX-License-Identifier: Apache-2.0
// Decides whether a save fits before the deadline, and how early to stop before the time limit. Pure; times in
// milliseconds.
//
//   notice          agreed train step S            all saved         deadline
//     |--- up to 2 train steps ---|------ save -------|-- put back --|
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dl::supervise {

constexpr int64_t kPutBackMs = 1000;  // kept free before the deadline, to put the job back

struct SaveTimes {
  uint64_t save_ms = 0;   // 95th percentile of the slowest learner's saves; 0 = unknown
  uint64_t step_ms = 0;   // time of a train step; 0 = unknown
  uint64_t local_ms = 0;  // the same for saves at the node-local level; 0 = unknown, or there is none
};

// save x 1.3 + 2 train steps + 1 s to put the job back. 0 if no save was measured.
int64_t time_needed_ms(const SaveTimes& times);
// The same for the node-local level.
int64_t local_time_needed_ms(const SaveTimes& times);

struct GraceDecision {
  bool save = true;
  std::string
      text;  // if not: "not saved: a save takes 41 s, and 12 s are left"; if local: "saving on the nodes alone: ..."
  bool local = false;  // at the node-local level alone
};
// Chooses where to save by what the predicted time allows: in the checkpoint directory, else at the node-local level,
// else nowhere, so that the last periodic checkpoint counts. remaining_ms: until the processes are killed; none = no
// deadline. An unmeasured save is tried.
GraceDecision decide_grace(const SaveTimes& times, std::optional<int64_t> remaining_ms);

// How long before the end of the time limit to stop: what is needed plus 15 s (Slurm ends a job up to some seconds
// late, never early, but the agreement and the put-back take a moment); signal_lead_ms while no save was measured;
// never more than a quarter of the whole time limit.
int64_t time_limit_lead_ms(const SaveTimes& times, int64_t signal_lead_ms, int64_t time_limit_ms);

}  // namespace dl::supervise
