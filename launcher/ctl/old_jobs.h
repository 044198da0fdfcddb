// SPDX-License-Identifier: Apache-2.0
// Finds jobs that have ended by the job directories they left: for `dlctl status --ended` and `dlctl clean`.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/ctl/folder_tree.h"
#include "launcher/ctl/job_view.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {

struct OldJob {
  JobView view;
  bool ended = false;                  // not in Slurm's queue, no dlrun, not paused (or paused, but gone from Slurm)
  std::string still;                   // why it has not ended: "Slurm has it: RUNNING", "it is paused"; or empty
  std::string unsure;                  // why only its own record tells that it has ended, so that it is kept; or empty
  int64_t began_ms = 0, ended_ms = 0;  // Unix time; 0: not known
};

// The states of the jobs that Slurm has in its queue, by the directory that a job's comment names and by job id, and
// the ids of all jobs that it knows, also of those that have ended. Pure.
struct QueuedJobs {
  std::map<std::string, std::string> state_of_dir, state_of_id;
  std::set<std::string> known;
};
QueuedJobs queued_jobs(const std::vector<slurm_cli::JobInfo>& jobs);
// Why Slurm cannot be asked whether the job has ended, or an empty text. cluster: our_cluster(); none: squeue is not
// installed. A job that Slurm here does not know may wait on another cluster with the same home. Pure.
std::string why_unsure(const JobView& view, const std::optional<std::string>& cluster);
// Why the job of a job directory has not ended: Slurm has it, or has a job of the same number, or elements of its array
// wait. `planned_id`: the job id in its plan.json, or empty. Returns an empty text if none of these holds. Pure.
std::string still_queued(const std::string& dir, const std::string& planned_id, const QueuedJobs& queued);

// The job directories (dl-* with a history) in these folders and in their dl-calls/ (made by dl.submit), the earliest
// end first. Skips links and folders of other users; root takes the rights of the folders' owner, permanently
// (act_as.h, and its errors). kIo if Slurm is installed but does not answer, since it is then unknown what runs.
Result<std::vector<OldJob>> find_old_jobs(const std::vector<std::string>& folders);

// The options of `dlctl clean` that decide what it may remove.
struct CleanRules {
  int64_t older_than_s = 0;
  bool results = false;  // also directories with files in results/
};
// Empty if the directory may be removed; else the reason in a few words: "it holds checkpoints". Pure.
std::string reason_to_keep(const OldJob& job, const TreeFacts& tree, const CleanRules& rules, int64_t now_ms);

}  // namespace dl::ctl
