// SPDX-License-Identifier: Apache-2.0
// Where claims run that are served in turns. For the files of in_turns.h alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/in_turns.h"

namespace dl::policy::in_turns {

// Sets `kept` and `now` of the claims, in the order of their turns: each gets a place that is free at its turn and
// leaves the later claims room at theirs. False if no such places were found. `room`, `before`: without any of the
// claims. *steps: counted down for whatever is looked at.
bool place_in_turns(const ClusterState& state, const RoomWithout& room, const SoFar& before, int64_t* steps,
                    std::vector<Taken>* claims);

// The same, but a claim may also get a place that the victims of a later claim leave. It starts when all victims have
// gone whose GPUs it gets.
bool place_anywhere(const ClusterState& state, const RoomWithout& room, const SoFar& before, int64_t* steps,
                    std::vector<Taken>* claims);

}  // namespace dl::policy::in_turns
