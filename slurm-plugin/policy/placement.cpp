// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/placement.h"

namespace dl::policy {

// To add a policy: a function in a file of its own, its value in Placement, and a row here.
const std::vector<PlacementPolicy>& placement_policies() {
  static const std::vector<PlacementPolicy> kPolicies = {
      {"pack", Placement::kPack, place_pack},
      {"spread", Placement::kSpread, place_spread},
  };
  return kPolicies;
}

const PlacementPolicy* find_placement(std::string_view name) {
  for (const PlacementPolicy& policy : placement_policies()) {
    if (name == policy.name) return &policy;
  }
  return nullptr;
}

std::optional<std::vector<Part>> place(Placement placement, const FreeGpus& free, int type, int gpus_per_learner,
                                       int learners) {
  if (free.slots(type, gpus_per_learner) < learners) return std::nullopt;
  for (const PlacementPolicy& policy : placement_policies()) {
    if (policy.placement == placement) return policy.place(free, type, gpus_per_learner, learners);
  }
  return std::nullopt;
}

}  // namespace dl::policy
