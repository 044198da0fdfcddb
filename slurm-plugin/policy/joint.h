// SPDX-License-Identifier: Apache-2.0
// Claims find their victims one after the other, each at the least loss for itself. Together they may do with less: one
// large job instead of eight small ones, or a later claim's victim leaves room for an earlier claim too. Here those of
// one type are looked at together. Pure.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/space.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {

// A claim whose victims are asked in this decision, or that waits for the same GPUs as these.
struct Taken {
  int job = 0;  // index of the claimant
  int type = 0;
  Space::Kept kept;  // its place
  VictimSet set;
  bool now = false;  // found by take_jointly(): the place is free already, and the claim starts
};

// What is found for all of them: the claims with the largest learners first, otherwise as they were; each with the
// victims that it needs beside those of the claims before it, and its place: one that is free already where there is
// one, since others may be served by a victim of which more is left over. Nothing if that is no less a loss, or if
// their sizes are not multiples of one another. `space`: with the places and victims that the claims have now.
// `before`: what was asked of jobs before any of these claims. `candidates`: borrowers that may be asked.
//
// On few borrowers (kFewTogether) the joint loss is the least there is, as long as `budget` steps are enough. On more,
// for claims of learners with one GPU, it is at most the least there is and one victim's loss; always no victim can be
// put back, and the loss is at most that of one claim after the other.
std::optional<std::vector<Taken>> take_jointly(const ClusterState& state, const Space& space, std::vector<Taken> claims,
                                               const std::vector<int>& candidates, const SoFar& before, int budget);

constexpr size_t kFewTogether = 512;

}  // namespace dl::policy
