// SPDX-License-Identifier: Apache-2.0
// Reads from the launch plan in a job directory what dlctl needs to know of the job.
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

// Whether the job belongs to another cluster than `ours`. The Slurm here then says nothing about it: a job with the
// same id is another job, and an unknown id does not mean that the job is gone. False if either cluster is not known.
bool is_of_other_cluster(const PlanFacts& plan, const std::string& ours);

}  // namespace dl::ctl
