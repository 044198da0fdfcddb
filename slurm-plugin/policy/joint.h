// SPDX-License-Identifier: Apache-2.0
// Claims find their victims one after another, each at the least loss for itself. Searched for together, less may be
// enough: one large job instead of eight small ones, or a later claim's victim that leaves room for an earlier claim
// too. Here this is done for the claims of one type. Pure.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/space.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {

// A claim whose victims are asked in this decision, or that waits for GPUs that are being given up already.
struct Taken {
  int job = 0;  // index of the claimant
  int type = 0;
  Space::Kept kept;  // its place
  VictimSet set;
  bool now = false;  // set by take_jointly(): the place is free already, so that the claim starts at once
};

// Finds victims and places for all `claims` together. The answer has those with the largest learners first, otherwise
// in the given order, each with its place (a free one if there is one) and with the victims that it needs in addition
// to those of the claims before it. Nothing if the loss is not smaller than that of the victims the claims have now, if
// the sizes of learners are not multiples of one another, or if other decisions depend on the present places. `space`:
// with the claims' present places and victims counted. `before`: what was asked of jobs before any of these claims was
// served. `candidates`: borrowers that may be asked.
//
// Among at most kFewTogether candidates the joint loss is the least possible, as long as `budget` steps are enough.
// Among more, where learners have one GPU, it exceeds the least possible by at most one victim's loss. Always every
// victim is needed.
std::optional<std::vector<Taken>> take_jointly(const ClusterState& state, const Space& space, std::vector<Taken> claims,
                                               const std::vector<int>& candidates, const SoFar& before, int budget);

constexpr size_t kFewTogether = 512;

}  // namespace dl::policy
