// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/rank_borrowers.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "slurm-plugin/policy/victims.h"

namespace dl::policy {
namespace {

// `jobs`: the least loss first. What a place on each node costs, and in its order those jobs; then all others.
void by_node(const ClusterState& state, const FreeGpus& free, int size, std::vector<int>* jobs) {
  std::vector<std::vector<int>> on_node(state.nodes.size());
  for (const int other : *jobs)
    for (const Part& part : state.jobs[other].parts) on_node[part.node].push_back(other);
  std::vector<std::pair<int64_t, int>> prices;
  for (size_t node = 0; node < on_node.size(); ++node) {
    int missing = size - free.on(static_cast<int>(node)) % size;
    int64_t lost = 0;
    size_t needed = 0;
    for (; needed < on_node[node].size() && missing > 0; ++needed) {
      const Job& job = state.jobs[on_node[node][needed]];
      lost += lost_if_paused(state, job);
      for (const Part& part : job.parts)
        if (part.node == static_cast<int>(node)) missing -= part.learners * job.gpus_per_learner;
    }
    on_node[node].resize(needed);
    if (missing <= 0) prices.emplace_back(lost, static_cast<int>(node));
  }
  std::sort(prices.begin(), prices.end());
  std::vector<char> listed(state.jobs.size());
  std::vector<int> order;
  const auto list = [&](int other) {
    if (listed[other] == 0) order.push_back(other);
    listed[other] = 1;
  };
  for (const auto& price : prices)
    for (const int other : on_node[price.second]) list(other);
  for (const int other : *jobs) list(other);
  *jobs = std::move(order);
}

}  // namespace

std::vector<int> rank_borrowers(const ClusterState& state, const FreeGpus& free, int type, int size,
                                const std::vector<int>& borrowers) {
  // The loss for each GPU of those that it borrowed: stopping it wastes the rest. Of equals the youngest.
  std::vector<std::tuple<int64_t, int64_t, int64_t, int>> keys;
  keys.reserve(borrowers.size());
  for (const int index : borrowers) {
    const Job& job = state.jobs[index];
    if (state.type_held(job) != type) continue;
    const int gpus = job.gpus();
    const int lent = std::max(1, job.charge == Charge::kOwn ? gpus : gpus - job.own_of(gpus));
    keys.emplace_back(lost_if_paused(state, job) / lent, -job.start_s, -job.id, index);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int> jobs;
  jobs.reserve(keys.size());
  for (const auto& key : keys) jobs.push_back(std::get<3>(key));
  if (size > 1) by_node(state, free, size, &jobs);
  return jobs;
}

}  // namespace dl::policy
