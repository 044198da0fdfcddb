// SPDX-License-Identifier: Apache-2.0
// Finds places for claims that are served in turns. Only the files of in_turns.h include this.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/in_turns.h"

namespace dl::policy::in_turns {

// Sets `kept` and `now` of each claim, in the order of their turns. A claim gets a place that is free once the victims
// of its own turn and of earlier turns have gone, and that leaves room for the claims after it. False: no such places
// were found. `room`, `before`: what is free, and what was asked of jobs, without any of the claims. *steps is counted
// down with each step.
bool place_in_turns(const ClusterState& state, const RoomWithout& room, const SoFar& before, int64_t* steps,
                    std::vector<Taken>* claims);

// The same, but a claim may also get GPUs that the victims of a later turn free. It then starts once those have gone.
bool place_anywhere(const ClusterState& state, const RoomWithout& room, const SoFar& before, int64_t* steps,
                    std::vector<Taken>* claims);

}  // namespace dl::policy::in_turns
