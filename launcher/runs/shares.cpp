// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/shares.h"

#include <algorithm>

namespace dl::runs {

namespace {

int all_gpus(const plan::PlannedNode& node) {
  return node.gpus + static_cast<int>(node.taken.size());
}

// Whether srun is given one number of GPUs for all nodes (plan/srun.cpp). If nodes have different numbers, srun
// chooses.
bool are_counted(const plan::LaunchPlan& plan) {
  return plan.gpus_per_learner == 0 ||
         std::all_of(plan.nodes.begin(), plan.nodes.end(),
                     [&](const plan::PlannedNode& node) { return all_gpus(node) == all_gpus(plan.nodes.front()); });
}

}  // namespace

std::vector<NodeShare> shares_of(const plan::LaunchPlan& plan) {
  std::vector<NodeShare> shares;
  shares.reserve(plan.nodes.size());
  const bool counted = are_counted(plan);
  for (const plan::PlannedNode& node : plan.nodes)
    shares.push_back({node.name, node.own_gpus, plan.cpus_per_learner * node.learners, node.learners, counted});
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

std::vector<NodeShare> both(const std::vector<NodeShare>& a, const std::vector<NodeShare>& b) {
  std::vector<NodeShare> shares = a;
  for (const NodeShare& more : b) {
    const auto found =
        std::find_if(shares.begin(), shares.end(), [&](const NodeShare& share) { return share.node == more.node; });
    if (found == shares.end()) {
      shares.push_back(more);
      continue;
    }
    for (const int gpu : more.gpus)
      if (std::find(found->gpus.begin(), found->gpus.end(), gpu) == found->gpus.end()) found->gpus.push_back(gpu);
    std::sort(found->gpus.begin(), found->gpus.end());
    found->cpus = std::max(found->cpus, more.cpus);
    found->learners = std::max(found->learners, more.learners);
    found->counted = found->counted && more.counted;
  }
  return shares;
}

std::string obstacle(const plan::LaunchPlan& plan, const plan::LaunchPlan& whole,
                     const std::vector<NodeShare>& others) {
  const bool has_gpus = std::any_of(plan.nodes.begin(), plan.nodes.end(),
                                    [](const plan::PlannedNode& node) { return !node.own_gpus.empty(); });
  const auto in_the_way = [&](const NodeShare& share) {
    return !share.gpus.empty() && (!share.counted || !are_counted(plan)) &&
           std::any_of(plan.nodes.begin(), plan.nodes.end(),
                       [&](const plan::PlannedNode& node) { return node.name == share.node; });
  };
  if (has_gpus && std::any_of(others.begin(), others.end(), in_the_way))
    return "its nodes have different numbers of GPUs";
  const bool wants_gpus = std::any_of(whole.nodes.begin(), whole.nodes.end(),
                                      [](const plan::PlannedNode& node) { return !node.own_gpus.empty(); });
  if (!wants_gpus) return {};
  for (const plan::PlannedNode& node : plan.nodes)
    if (node.learners > node.servers && node.own_gpus.empty() && all_gpus(node) > 0)
      return "none is free on " + node.name;
  if (whole.gpus_per_learner > 0 && plan.gpus_per_learner == 0)
    return "the GPUs that are free cannot be divided evenly among its learners";
  return {};
}

}  // namespace dl::runs
