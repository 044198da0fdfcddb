// SPDX-License-Identifier: Apache-2.0
// Decides how many learners each node of an allocation can hold, and how many are started. Pure; used by make_plan()
// alone.
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

// GPUs are a hard limit if their number is known: kConflict if fewer than range.min learners fit. Slurm's task count is
// a soft limit: a job with too few tasks or CPUs runs all the same, with overcommit set.
// If learners have no GPUs, tasks are kept free for `servers` parameter servers (with GPUs, the job's tasks are the
// learners alone).
Result<Capacity> find_capacity(const Allocation& allocation, const LearnerRange& range, int gpus_per_learner,
                               int servers = 0);

// --learners auto: the number of learners for which there are `gpus_per_learner` GPUs on one node. nullopt if no GPU is
// known, or learners shall have none. kConflict if no node has enough GPUs for one learner.
Result<std::optional<LearnerRange>> learners_by_gpus(const Allocation& allocation, int gpus_per_learner);

// If learners_by_gpus() gave nullopt: why learners get no GPUs. not_wanted: the request asks for none.
std::string why_no_gpus(const Allocation& allocation, bool not_wanted);

// Chooses a node for each parameter server and returns their indices. On entry on_node[n] is the number of learners on
// node n; the servers are added to it. Each server goes to the node with the fewest processes that has a place left
// (Capacity::per_node); if there is none, to the nodes of learners in turn. Pure.
std::vector<int> place_servers(const Capacity& capacity, int servers, std::vector<int>* on_node);

// True if a node gets more processes than Slurm counted tasks for.
bool is_overcommitted(const Allocation& allocation, const std::vector<int>& on_node);

// CPUs of each learner if node i has on_node[i] of them: the job's --cpus-per-task, or fewer if the learners leave a
// part of a node to other runs of the job. 0 = unknown.
int find_cpus_per_learner(const Allocation& allocation, const std::vector<int>& on_node, int gpus_per_learner);

}  // namespace dl::plan
