// SPDX-License-Identifier: Apache-2.0
// What the launch plan in a job directory tells of its job.
#pragma once

#include <string>

#include "launcher/record/job_dir.h"

namespace dl::ctl {

// From plan.json; empty where it could not be read.
struct PlanFacts {
  std::string framework, version, node_list;
  int learners = 0;
  int gpus_per_learner = 0;
  std::string checkpoint;  // as --dl-checkpoint takes it
  std::string work_dir, job_dir;
  std::string job_id;
  std::string cluster;  // of Slurm
};

// Never fails: what cannot be read stays empty. foreign: the directory belongs to another user, so only a small file is
// read.
PlanFacts read_plan(const record::JobDir& dir, bool foreign);

// Whether both paths lead to one folder, perhaps through links. False if one is empty.
bool is_same_folder(const std::string& a, const std::string& b);

// Whether the job is of another cluster than `ours`, so that the Slurm here knows nothing of it: its number is that of
// another job here, and that it is not known here does not mean that it is gone. False if one of them is not known.
bool is_of_other_cluster(const PlanFacts& plan, const std::string& ours);

}  // namespace dl::ctl
