// SPDX-License-Identifier: Apache-2.0
// The job directories of one job: dl-12 of its first dlrun, dl-12.2 and so on of further ones (launcher/runs).
#pragma once

#include <cstddef>
#include <cstdint>
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
// The other way round: "/x/dl-12.2" -> "/x/dl-12" and 2; of any other path itself, and 1. Pure.
struct RunName {
  std::string first;
  int number = 1;
};
RunName split_run_dir(const std::string& path);
// Those that are there, by rising number, at most so many. Some may be missing in between.
std::vector<RunDir> run_dirs(const std::string& first, size_t most = SIZE_MAX);

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
