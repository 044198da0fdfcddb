// SPDX-License-Identifier: Apache-2.0
// Node placement: decides which nodes a job's learners get. All learners or none (a gang), all on GPUs of one type,
// each learner on one node.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "slurm-plugin/policy/free_gpus.h"

namespace dl::policy {

// Places `learners` of `gpus_per_learner` GPUs each on free nodes of `type`; nothing if they do not fit. The answer is
// sorted by node. Every policy places whatever fits: they differ in where.
using PlaceFunction = std::optional<std::vector<Part>> (*)(const FreeGpus& free, int type, int gpus_per_learner,
                                                           int learners);

struct PlacementPolicy {
  const char* name;  // as in --dl-placement
  Placement placement;
  PlaceFunction place;
};

// Fewest nodes, then fewest leaf switches; then the nodes that it fills best.
std::optional<std::vector<Part>> place_pack(const FreeGpus& free, int type, int gpus_per_learner, int learners);
// As few learners on one node as possible, on the emptiest nodes.
std::optional<std::vector<Part>> place_spread(const FreeGpus& free, int type, int gpus_per_learner, int learners);

// The table of policies; nullptr for a name that is not in it.
const PlacementPolicy* find_placement(std::string_view name);
const std::vector<PlacementPolicy>& placement_policies();

// Places by the policy of this placement; as PlaceFunction.
std::optional<std::vector<Part>> place(Placement placement, const FreeGpus& free, int type, int gpus_per_learner,
                                       int learners);

}  // namespace dl::policy
