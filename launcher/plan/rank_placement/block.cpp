// SPDX-License-Identifier: Apache-2.0
// Block: neighbouring ranks communicate most (all-reduce rings, pipeline stages), so they share a node.
#include <algorithm>

#include "launcher/plan/rank_placement/rank_placement.h"

namespace dl::plan {

std::vector<int> place_block(const std::vector<int>& capacity, int learners) {
  std::vector<int> nodes;
  nodes.reserve(static_cast<size_t>(learners));
  for (size_t node = 0; node < capacity.size(); ++node) {
    const int here = std::min(capacity[node], learners - static_cast<int>(nodes.size()));
    nodes.insert(nodes.end(), static_cast<size_t>(here), static_cast<int>(node));
  }
  return nodes;
}

}  // namespace dl::plan
