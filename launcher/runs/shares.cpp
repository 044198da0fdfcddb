// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/shares.h"

#include <algorithm>

namespace dl::runs {

std::vector<NodeShare> shares_of(const plan::LaunchPlan& plan) {
  std::vector<NodeShare> shares;
  shares.reserve(plan.nodes.size());
  for (const plan::PlannedNode& node : plan.nodes)
    shares.push_back({node.name, node.own_gpus, plan.cpus_per_learner * node.learners, node.learners});
  return shares;
}

void take_out(const std::vector<NodeShare>& others, plan::Allocation* allocation) {
  for (const NodeShare& share : others) {
    const auto found = std::find_if(allocation->nodes.begin(), allocation->nodes.end(),
                                    [&](const plan::Node& node) { return node.name == share.node; });
    if (found == allocation->nodes.end()) continue;
    for (const int gpu : share.gpus) {
      if (std::find(found->taken.begin(), found->taken.end(), gpu) != found->taken.end()) continue;
      found->taken.push_back(gpu);
      if (found->gpus > 0) --found->gpus;
    }
    std::sort(found->taken.begin(), found->taken.end());
    found->taken_cpus += share.cpus;
    found->taken_tasks += share.learners;
  }
}

bool is_countable(const plan::LaunchPlan& plan, const std::vector<NodeShare>& others) {
  if (plan.gpus_per_learner == 0) return true;
  const auto all = [](const plan::PlannedNode& node) { return node.gpus + static_cast<int>(node.taken.size()); };
  const bool same = std::all_of(plan.nodes.begin(), plan.nodes.end(),
                                [&](const plan::PlannedNode& node) { return all(node) == all(plan.nodes.front()); });
  return same || std::all_of(others.begin(), others.end(), [](const NodeShare& share) { return share.gpus.empty(); });
}

}  // namespace dl::runs
