// SPDX-License-Identifier: Apache-2.0
// The job directories of one job: dl-12 for its first dlrun, dl-12.2 and so on for further ones (launcher/runs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/record/job_comment.h"

namespace dl::record {

struct RunDir {
  int number = 1;
  std::string path;
};
// "/x/dl-12", 2 -> "/x/dl-12.2"; number 1: "/x/dl-12" itself. Pure.
std::string run_dir(const std::string& first, int number);
// The inverse: "/x/dl-12.2" -> "/x/dl-12" and 2; any other path -> the path itself and 1. Pure.
struct RunName {
  std::string first;
  int number = 1;
};
RunName split_run_dir(const std::string& path);
// The directories that exist, by ascending number, at most `most`; numbers may be missing.
std::vector<RunDir> run_dirs(const std::string& first, size_t most = SIZE_MAX);

// The state of another run of the job.
struct RunState {
  int number = 1;
  JobState state = JobState::kPending;
  bool operator==(const RunState& other) const { return number == other.number && state == other.state; }
};
// The states of all runs except the one in directory `own`; runs whose events cannot be read are left out.
std::vector<RunState> other_runs(const std::string& first, const std::string& own);

// Turns *comment, of run `own`, into one for the whole job: the state of the runs that are at work, else the worst end;
// the counts of states in the reason; the directory of the first run, from which the others are found. Without other
// runs *comment stays unchanged. Pure.
void tell_of_all(const std::vector<RunState>& others, int own, const std::string& first, JobComment* comment);

// Writes what `read` returns, and writes again as long as it has changed meanwhile. Each run of a job writes the
// comment for all runs; without this, a run that reads first and writes last leaves an old comment behind. If every run
// calls this after each change of its state, the comment of a job whose runs have come to rest is the newest, in
// whichever order they read and write. Returns false as soon as `write` does, and also if the states never came to
// rest.
bool write_while_changed(const std::function<std::vector<RunState>()>& read,
                         const std::function<bool(const std::vector<RunState>&)>& write);

}  // namespace dl::record
