// SPDX-License-Identifier: Apache-2.0
// How many learners each node of an allocation may hold, and how many there shall be. Pure; used by make_plan() alone.
#pragma once

#include <vector>

#include "launcher/common/request_values.h"
#include "launcher/common/result.h"
#include "launcher/plan/allocation/allocation.h"

namespace dl::plan {

struct Capacity {
  int learners = 0;           // to be started
  std::vector<int> per_node;  // index as Allocation::nodes; sum >= learners
  bool overcommit = false;    // more learners on a node than Slurm counted tasks for
};

// GPUs are a hard limit, where their number is known: kConflict if fewer than range.min learners fit. The tasks that
// Slurm counted are a soft one: a job of too few tasks or CPUs runs all the same, with overcommit set.
Result<Capacity> find_capacity(const Allocation& allocation, const LearnerRange& range, int gpus_per_learner);

}  // namespace dl::plan
