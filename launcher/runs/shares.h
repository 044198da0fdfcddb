// SPDX-License-Identifier: Apache-2.0
// What the runs of a job have of its nodes. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"

namespace dl::runs {

struct NodeShare {
  std::string node;
  std::vector<int> gpus;  // positions among the job's GPUs on that node
  int cpus = 0;
  int learners = 0;
  bool counted = true;  // else Slurm chooses which GPUs it has, and `gpus` says how many alone
};

// What a plan takes.
std::vector<NodeShare> shares_of(const plan::LaunchPlan& plan);

// Takes what others have out of the allocation: their GPUs for good; of CPUs and tasks it is noted, since learners may
// share CPUs, and a GPU never.
void take_out(const std::vector<NodeShare>& others, plan::Allocation* allocation);

// Of two plans of one run: what both have.
std::vector<NodeShare> both(const std::vector<NodeShare>& a, const std::vector<NodeShare>& b);

// Why a plan cannot be carried out beside others, or an empty text. whole: the plan of the same run if it were alone.
//   - the GPUs of one of its nodes are not counted by position: Slurm gives each node of a step the same number of
//     them, or chooses itself
//   - it was to share the GPUs that are free, and of those there are none on one of its nodes, or no even share
std::string obstacle(const plan::LaunchPlan& plan, const plan::LaunchPlan& whole, const std::vector<NodeShare>& others);

}  // namespace dl::runs
