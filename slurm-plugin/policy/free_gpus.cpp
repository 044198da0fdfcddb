// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/free_gpus.h"

#include <algorithm>
#include <numeric>

namespace dl::policy {

FreeGpus::FreeGpus(const ClusterState& state)
    : nodes_(&state.nodes), free_(state.nodes.size()), nodes_of_(state.types.size()), total_(state.types.size()) {
  for (size_t i = 0; i < free_.size(); ++i) {
    free_[i] = state.nodes[i].usable ? state.nodes[i].gpus : 0;
    nodes_of_[state.nodes[i].type].push_back(static_cast<int>(i));
    total_[state.nodes[i].type] += free_[i];
  }
  for (size_t i = state.first_running; i < state.jobs.size(); ++i)
    take(state.jobs[i].parts, state.jobs[i].gpus_per_learner);
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

std::vector<FreeOfType> free_by_type(const ClusterState& state) {
  const FreeGpus free(state);
  std::vector<FreeOfType> types(state.types.size());
  for (size_t i = 0; i < types.size(); ++i) types[i].type = static_cast<int>(i);
  std::vector<int> used(state.nodes.size());
  for (const Job& job : state.jobs)
    for (const Part& part : job.parts) used[part.node] += part.learners * job.gpus_per_learner;
  for (size_t i = 0; i < state.nodes.size(); ++i) {
    const Node& node = state.nodes[i];
    FreeOfType& of = types[node.type];
    if (!node.usable) {
      of.kept += node.gpus - used[i];
      continue;
    }
    const int here = free.on(static_cast<int>(i));
    of.gpus += here;
    of.nodes += here > 0 ? 1 : 0;
    of.most = std::max(of.most, here);
    of.node_gpus = std::max(of.node_gpus, node.gpus);
  }
  for (FreeOfType& of : types) {
    for (int size = 1; size < of.node_gpus; size *= 2)
      of.by_size.emplace_back(size, fragmentation(free, of.type, size));
    if (of.node_gpus > 0) of.by_size.emplace_back(of.node_gpus, fragmentation(free, of.type, of.node_gpus));
  }
  return types;
}

double fragmentation(const FreeGpus& free, int type, int gpus_per_learner) {
  const int all = free.total(type);
  if (all == 0) return 0;
  return 1.0 - static_cast<double>(free.slots(type, gpus_per_learner)) * gpus_per_learner / all;
}

}  // namespace dl::policy
