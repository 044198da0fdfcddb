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
};

// What a plan takes.
std::vector<NodeShare> shares_of(const plan::LaunchPlan& plan);

// Takes what others have out of the allocation: their GPUs for good; of CPUs and tasks it is noted, since learners may
// share CPUs, and a GPU never.
void take_out(const std::vector<NodeShare>& others, plan::Allocation* allocation);

// Whether the GPUs of a plan are counted by position on every node that others use, too: Slurm gives each node of a
// step the same number of them, or chooses itself.
bool is_countable(const plan::LaunchPlan& plan, const std::vector<NodeShare>& others);

}  // namespace dl::runs
