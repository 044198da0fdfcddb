// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/free_gpus.h"

#include <numeric>

namespace dl::policy {

FreeGpus::FreeGpus(const ClusterState& state)
    : nodes_(&state.nodes), free_(state.nodes.size()), nodes_of_(state.types.size()), total_(state.types.size()) {
  for (size_t i = 0; i < free_.size(); ++i) {
    free_[i] = state.nodes[i].usable ? state.nodes[i].gpus : 0;
    nodes_of_[state.nodes[i].type].push_back(static_cast<int>(i));
    total_[state.nodes[i].type] += free_[i];
  }
  for (const Job& job : state.jobs) take(job.parts, job.gpus_per_learner);
}

int FreeGpus::total() const {
  return std::accumulate(total_.begin(), total_.end(), 0);
}

int FreeGpus::slots(int type, int gpus_per_learner) const {
  for (const Count& count : counts_) {
    if (count.type == type && count.size == gpus_per_learner) return count.slots;
  }
  int slots = 0;
  for (const int node : nodes_of_[type]) slots += free_[node] / gpus_per_learner;
  counts_.push_back(Count{type, gpus_per_learner, slots});
  return slots;
}

void FreeGpus::add(int node, int gpus) {
  const Node& where = (*nodes_)[node];
  if (!where.usable) return;
  const int before = free_[node];
  free_[node] += gpus;
  total_[where.type] += gpus;
  for (Count& count : counts_) {
    if (count.type == where.type) count.slots += free_[node] / count.size - before / count.size;
  }
}

void FreeGpus::add(const std::vector<Part>& parts, int gpus_per_learner) {
  for (const Part& part : parts) add(part.node, part.learners * gpus_per_learner);
}

double fragmentation(const FreeGpus& free, int type, int gpus_per_learner) {
  const int all = free.total(type);
  if (all == 0) return 0;
  return 1.0 - static_cast<double>(free.slots(type, gpus_per_learner)) * gpus_per_learner / all;
}

}  // namespace dl::policy
