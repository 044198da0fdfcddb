// SPDX-License-Identifier: Apache-2.0
// Which job directory a dlrun works in, of those that its job has. Pure.
#pragma once

#include <optional>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/runs/run_identity.h"

namespace dl::runs {

// A job directory that is there: number 1 is dl-12, number 2 dl-12.2.
struct PastRun {
  int number = 1;
  bool in_use = false;  // another dlrun is at work in it
  std::vector<record::Event> events;
};

struct Choice {
  int number = 1;
  // It completed in an earlier start of the job, and this start has not come to it yet: nothing is to be run.
  std::optional<record::Event> completed;
};

// `start`: how often Slurm has put the job back. past: by rising number.
//   the same run, completed before as often as this start has not come by yet    is passed over
//   the same run, which this start has not come by                                goes on there
//   the same command with another environment, which this start has not come by  goes on there
//   the same run once more in one start (a loop in the script)                    a further attempt there
//   a directory that tells of no run, or was made by an older dlrun               is taken, if it is the first
//   else                                                                          a new one
Choice choose_run(const std::vector<PastRun>& past, const RunIdentity& identity, int start);

}  // namespace dl::runs
