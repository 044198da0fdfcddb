// SPDX-License-Identifier: Apache-2.0
// Spread: learner after learner to the node that has the fewest of this job, and among those the most free GPUs. What a
// scheduler does that places task by task on the emptiest node.
#include <algorithm>
#include <queue>
#include <tuple>

#include "slurm-plugin/policy/placement.h"

namespace dl::policy {

std::optional<std::vector<Part>> place_spread(const FreeGpus& free, int type, int gpus_per_learner, int learners) {
  // Learners here, minus free GPUs, node: the smallest is next.
  using Next = std::tuple<int, int, int>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (const int node : free.nodes_of(type)) {
    if (free.on(node) >= gpus_per_learner) next.emplace(0, -free.on(node), node);
  }
  std::vector<Part> parts;
  for (int left = learners; left > 0; --left) {
    if (next.empty()) return std::nullopt;
    auto [here, minus_free, node] = next.top();
    next.pop();
    if (here == 0) {
      parts.push_back(Part{node, 1});
    } else {
      std::find_if(parts.begin(), parts.end(), [node = node](const Part& part) {
        return part.node == node;
      })->learners++;
    }
    if (-minus_free >= 2 * gpus_per_learner) next.emplace(here + 1, minus_free + gpus_per_learner, node);
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.node < b.node; });
  return parts;
}

}  // namespace dl::policy
