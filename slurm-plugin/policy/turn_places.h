// SPDX-License-Identifier: Apache-2.0
// Where claims run that are served in turns. For the files of in_turns.h alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/in_turns.h"

namespace dl::policy::in_turns {

// Gives the claims, in the order of their turns, `kept` and `now`: each on what is free at its turn, so that the later
// ones still fit at theirs. False if that was not found. `room`, `before`: without any of the claims. *steps: counted
// down for whatever is looked at.
bool place_in_turns(const ClusterState& state, const RoomWithout& room, const SoFar& before, int64_t* steps,
                    std::vector<Taken>* claims);

// The same wherever victims of any of them leave: no claim starts there before they all have gone that it needs.
bool place_anywhere(const ClusterState& state, const RoomWithout& room, const SoFar& before, int64_t* steps,
                    std::vector<Taken>* claims);

}  // namespace dl::policy::in_turns
