// SPDX-License-Identifier: Apache-2.0
// The GPUs, CPUs and tasks that the runs of a job use on its nodes. Pure.
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
  bool counted = true;  // false: Slurm chooses the GPUs, and only the size of `gpus` is right
};

// What a plan uses.
std::vector<NodeShare> shares_of(const plan::LaunchPlan& plan);

// Removes what other runs use from the allocation: their GPUs; CPUs and tasks are only noted as taken, since learners
// may share CPUs but never a GPU.
void take_out(const std::vector<NodeShare>& others, plan::Allocation* allocation);

// The union of the shares of two plans of one run.
std::vector<NodeShare> both(const std::vector<NodeShare>& a, const std::vector<NodeShare>& b);

// Why a plan cannot run beside others; empty if it can. whole: the plan of the same run if it were alone. Reasons:
//   - Slurm, not the plan, chooses which GPUs of a node a step gets: it gives each node of a step the same number of
//     GPUs, or, if the nodes differ in GPUs, chooses itself; then two runs must not share a node
//   - it divides the free GPUs among its learners, and one of its nodes has none free, or they do not divide evenly
std::string obstacle(const plan::LaunchPlan& plan, const plan::LaunchPlan& whole, const std::vector<NodeShare>& others);

}  // namespace dl::runs
