// SPDX-License-Identifier: Apache-2.0
// Cyclic: each node in turn gets one rank, and full nodes are skipped. If learners are few, this spreads their load on
// memory and network.
#include "launcher/plan/rank_placement/rank_placement.h"

namespace dl::plan {

std::vector<int> place_cyclic(const std::vector<int>& capacity, int learners) {
  std::vector<int> left = capacity;
  std::vector<int> nodes;
  nodes.reserve(static_cast<size_t>(learners));
  bool placed = true;
  while (placed && static_cast<int>(nodes.size()) < learners) {
    placed = false;
    for (size_t node = 0; node < left.size() && static_cast<int>(nodes.size()) < learners; ++node) {
      if (left[node] == 0) continue;
      --left[node];
      nodes.push_back(static_cast<int>(node));
      placed = true;
    }
  }
  return nodes;
}

}  // namespace dl::plan
