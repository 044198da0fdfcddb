// SPDX-License-Identifier: Apache-2.0
// What a report shows of the launch plan in a job directory (dl-job-directory(5)). No value of the environment is read.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::report {

struct PlanNode {
  std::string name;
  int64_t learners = 0;
  int64_t gpus = -1;  // -1: unknown
};

struct PlanLearner {
  std::string node, gpus;  // "0,1"
};

// Empty texts and -1: the plan does not say so.
struct PlanSheet {
  std::string job_name, cluster, framework, version, gpu_type, placement, bind, image, tier, batch, work_dir;
  bool under_slurm = false;
  int64_t ranks = -1, servers = 0, least_servers = 0, least = -1,
          most = -1;  // least, most: the learners that were asked for
  int64_t gpus_each = -1, cpus_each = -1, restarts = -1, slurm_restarts = -1;
  std::string checkpoint;  // the directory
  std::vector<std::string> command, metrics, warnings;
  std::vector<PlanNode> nodes;
  std::vector<PlanLearner> learners;  // by rank
};

// None if the text is no such plan.
std::optional<PlanSheet> parse_plan_sheet(std::string_view json);

// How the job can be started again, as far as the plan says: a batch script, or without Slurm a line for a shell.
// checkpoint: as --dl-checkpoint takes it; or empty.
std::string start_script(const PlanSheet& plan, const std::string& checkpoint);

}  // namespace dl::report
