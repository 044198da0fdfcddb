// SPDX-License-Identifier: Apache-2.0
// The job directories of one job: dl-12 of its first dlrun, dl-12.2 and so on of further ones (launcher/runs).
#pragma once

#include <string>
#include <vector>

#include "launcher/record/job_comment.h"

namespace dl::record {

struct RunDir {
  int number = 1;
  std::string path;
};
// "/x/dl-12", 2 -> "/x/dl-12.2"; 1: the first itself. Pure.
std::string run_dir(const std::string& first, int number);
// Those that are there, by rising number. Some may be missing in between.
std::vector<RunDir> run_dirs(const std::string& first);

// How another run of the job stands.
struct RunState {
  int number = 1;
  JobState state = JobState::kPending;
};
// Of all runs of the job but the one in `own`; what cannot be read is left out.
std::vector<RunState> other_runs(const std::string& first, const std::string& own);

// One comment for the whole job: its state is that of the runs that are at work, else the worst of the ends; the
// directory is the first one's, from which the others are found. Without others *comment stays. Pure.
void tell_of_all(const std::vector<RunState>& others, int own, const std::string& first, JobComment* comment);

}  // namespace dl::record
