// SPDX-License-Identifier: Apache-2.0
// How many learners each node of an allocation may hold, and how many there shall be. Pure; used by make_plan() alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/request_values.h"
#include "launcher/plan/allocation/allocation.h"

namespace dl::plan {

struct Capacity {
  int learners = 0;           // to be started
  std::vector<int> per_node;  // index as Allocation::nodes; sum >= learners
  bool overcommit = false;    // more learners on a node than Slurm counted tasks for
};

// GPUs are a hard limit, where their number is known: kConflict if fewer than range.min learners fit. The tasks that
// Slurm counted are a soft one: a job of too few tasks or CPUs runs all the same, with overcommit set.
// Tasks are left for `servers` parameter servers where learners have no GPUs (with GPUs, Slurm counts learners alone).
Result<Capacity> find_capacity(const Allocation& allocation, const LearnerRange& range, int gpus_per_learner,
                               int servers = 0);

// --learners auto: as many as have a GPU, or `gpus_per_learner` of them on one node. nullopt if no GPU is known, or
// learners are to have none. kConflict if no node has enough for one learner.
Result<std::optional<LearnerRange>> learners_by_gpus(const Allocation& allocation, int gpus_per_learner);

// In that case: why learners have none. not_wanted: the request says so.
std::string why_no_gpus(const Allocation& allocation, bool not_wanted);

// Where the servers stand: on_node[n] learners are on node n already, and servers are added there. Each goes to the
// node of the fewest processes that has a place left (Capacity::per_node), else beside learners, in turn. Returns a
// node for each server. Pure.
std::vector<int> place_servers(const Capacity& capacity, int servers, std::vector<int>* on_node);

// More processes on a node than Slurm counted tasks for.
bool is_overcommitted(const Allocation& allocation, const std::vector<int>& on_node);

// The CPUs of each learner, where on_node[i] of them stand on each node: as Slurm was asked for, less where they leave
// a part of the node to other runs of the job. 0 = unknown.
int find_cpus_per_learner(const Allocation& allocation, const std::vector<int>& on_node, int gpus_per_learner);

}  // namespace dl::plan
