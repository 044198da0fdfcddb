// SPDX-License-Identifier: Apache-2.0
// A scheduler that knows tasks but not jobs: each learner takes a place as soon as one is free, and holds it until the
// others of its job have one, too. Jobs that hold GPUs can wait for one another.
#include <algorithm>

#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/sim/policies/policies.h"

namespace dl::sim {
namespace {

// Whether the job's learners may have this type. Once some learners have a place, the others must have the same type.
bool may_use(const policy::ClusterState& state, const policy::Job& job, int type) {
  if (!job.parts.empty()) return state.type_held(job) == type;
  return job.type == policy::kAnyType || job.type == type;
}

// The node for one more learner; -1: no node has room. pack: the fullest node that has room; spread: the emptiest.
int node_for(const policy::ClusterState& state, const policy::FreeGpus& free, const policy::Job& job, int held_type) {
  for (int type = 0; type < state.type_count(); ++type) {
    if (held_type >= 0 ? held_type != type : !may_use(state, job, type)) continue;
    if (free.slots(type, job.gpus_per_learner) == 0) continue;
    const auto parts = policy::place(job.placement, free, type, job.gpus_per_learner, 1);
    if (parts) return parts->front().node;
  }
  return -1;
}

Turn place_learners(const policy::ClusterState& state, const std::vector<int>& learners) {
  Turn turn;
  policy::FreeGpus free(state);
  std::vector<int> type_of(state.jobs.size(), policy::kAnyType);
  for (const int index : learners) {
    const policy::Job& job = state.jobs[index];
    const int node = node_for(state, free, job, type_of[index]);
    if (node < 0) continue;
    free.add(node, -job.gpus_per_learner);
    type_of[index] = state.nodes[node].type;
    turn.placed.push_back(Placed{index, node});
  }
  return turn;
}

// Each job is listed once for each of its learners without a place, oldest job first.
std::vector<int> waiting_learners(const policy::ClusterState& state) {
  std::vector<int> learners;
  for (const int index : queue_of(state)) {
    const policy::Job& job = state.jobs[index];
    learners.insert(learners.end(), static_cast<size_t>(job.max_learners - job.learners()), index);
  }
  return learners;
}

}  // namespace

Turn plan_learners(const View& view, Dice* /*dice*/) {
  return place_learners(view.state, waiting_learners(view.state));
}

// Learners that found no place try again in random order, as if each waited for a time of its own (Kubernetes'
// back-off).
Turn plan_learners_shuffled(const View& view, Dice* dice) {
  std::vector<int> learners = waiting_learners(view.state);
  for (size_t i = learners.size(); i > 1; --i)
    std::swap(learners[i - 1], learners[static_cast<size_t>(dice->from(0, static_cast<int64_t>(i) - 1))]);
  return place_learners(view.state, learners);
}

}  // namespace dl::sim
