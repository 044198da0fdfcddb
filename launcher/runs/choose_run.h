// SPDX-License-Identifier: Apache-2.0
// Chooses the job directory in which a dlrun works, if its job has several. Pure.
#pragma once

#include <optional>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/runs/run_identity.h"

namespace dl::runs {

// An existing job directory: number 1 is dl-12, number 2 dl-12.2.
struct PastRun {
  int number = 1;
  bool in_use = false;  // another dlrun uses it now
  std::vector<record::Event> events;
};

struct Choice {
  int number = 1;
  // If set: this run completed in an earlier start of the job, so it is not run again.
  std::optional<record::Event> completed;
};

// start: how often Slurm has requeued the job. past: by ascending number. The first row that applies counts:
//   the same run completed in earlier starts more often than in this start       it is not run again
//   the same run, not begun in this start                                         continues there
//   the same command with another environment, not begun in this start           continues there
//   the same run once more in this start (a loop in the script)                   a further attempt there
//   directory 1, without a recorded run (new, or of an older dlrun)               is used
//   otherwise                                                                     a new directory
Choice choose_run(const std::vector<PastRun>& past, const RunIdentity& identity, int start);

}  // namespace dl::runs
