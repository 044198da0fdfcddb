// SPDX-License-Identifier: Apache-2.0
// Jobs that have ended, by the directories that they left: for `dlctl status --ended` and `dlctl clean`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/ctl/folder_tree.h"
#include "launcher/ctl/job_view.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {

struct OldJob {
  JobView view;
  bool ended = false;                  // neither Slurm nor a dlrun has it any more
  std::string still;                   // why not: "Slurm has it: RUNNING", "it is paused"; empty if it has ended
  bool unsure = false;                 // ended by its record alone: Slurm could not be asked
  int64_t began_ms = 0, ended_ms = 0;  // 0: not known
};

// The jobs that Slurm has now, by the directory that their comment names, and by their id. Pure.
struct QueuedJobs {
  std::map<std::string, std::string> state_of_dir, state_of_id;
};
QueuedJobs queued_jobs(const std::vector<slurm_cli::JobInfo>& jobs);
// Why the job of a job directory has not ended: Slurm has it, or one of its number, or elements of its array wait.
// `planned_id`: the job that its plan.json names. Empty if there is no such job. Pure.
std::string still_queued(const std::string& dir, const std::string& planned_id, const QueuedJobs& queued);

// The job directories (dl-*, with a history in it) in each of these folders, the oldest end first; those of dl.submit
// in their dl-calls/, too. Only the caller's own, and links are passed over; root takes the rights of the folders'
// owner for good (act_as.h). kIo if Slurm is installed and does not answer: what runs is not known then.
Result<std::vector<OldJob>> find_old_jobs(const std::vector<std::string>& folders);

// Whether dlctl clean may remove a job directory. Pure.
struct CleanRules {
  int64_t older_than_s = 0;
  bool results = false;  // also those in whose results/ files lie
};
// Empty: it may; else why not, as a few words: "it holds checkpoints".
std::string reason_to_keep(const OldJob& job, const TreeFacts& tree, const CleanRules& rules, int64_t now_ms);

}  // namespace dl::ctl
