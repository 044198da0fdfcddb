// SPDX-License-Identifier: Apache-2.0
// THE table of rank placements. To add one: a file beside this one, and a row.
#include "launcher/plan/rank_placement/rank_placement.h"

namespace dl::plan {
namespace {

const RankPlacement kPlacements[] = {
    {"block", "neighbouring ranks on one node, nodes filled one after the other", place_block},
    {"cyclic", "ranks dealt out to the nodes in turn", place_cyclic},
};

}  // namespace

const RankPlacement* find_rank_placement(const std::string& name) {
  for (const RankPlacement& placement : kPlacements) {
    if (name == placement.name) return &placement;
  }
  return nullptr;
}

std::string rank_placement_names() {
  std::string names;
  for (const RankPlacement& placement : kPlacements) names += (names.empty() ? "" : ", ") + std::string(placement.name);
  return names;
}

}  // namespace dl::plan
