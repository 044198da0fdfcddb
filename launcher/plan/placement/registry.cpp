// SPDX-License-Identifier: Apache-2.0
// THE table of rank placement policies. To add one: a file beside this one, and a row.
#include "launcher/plan/placement/placement.h"

namespace dl::plan {
namespace {

const PlacementPolicy kPolicies[] = {
    {"block", "neighbouring ranks on one node, nodes filled one after the other", place_block},
    {"cyclic", "ranks dealt out to the nodes in turn", place_cyclic},
};

}  // namespace

const PlacementPolicy* find_placement(const std::string& name) {
  for (const PlacementPolicy& policy : kPolicies) {
    if (name == policy.name) return &policy;
  }
  return nullptr;
}

std::string placement_names() {
  std::string names;
  for (const PlacementPolicy& policy : kPolicies) names += (names.empty() ? "" : ", ") + std::string(policy.name);
  return names;
}

}  // namespace dl::plan
