// SPDX-License-Identifier: Apache-2.0
// Claims find their victims one after another, each at the least loss for itself. Searched for together, less may be
// enough: one large job instead of eight small ones, a later claim's victim that leaves room for an earlier claim too,
// or claims that may have any type and have one each rather than both the same. Pure.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/own_tenant.h"
#include "slurm-plugin/policy/space.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {

// A claim whose victims are asked in this decision, or that waits for GPUs that are being given up already.
struct Taken {
  int job = 0;  // index of the claimant
  int type = 0;
  Space::Kept kept;  // its place
  VictimSet set;
  bool now = false;                // set by the search: the place is free already, so that the claim starts at once
  std::vector<int> types;          // that it may have, `type` among them; empty: no other
  bool within = false;             // a guaranteed one to which jobs of its own tenant yield (in_turns.h)
  std::vector<Leaving> displaced;  // what will leave the quota for it
};

// The victims of all claims: of one that was asked several times, the last word; without those that others have asked
// for as much since. `before`: what was asked of jobs without any of these claims.
VictimSet all_victims(const ClusterState& state, const std::vector<Taken>& claims, const SoFar& before);

// What is free without what these claims have done. `later` counts also what other jobs give up that were asked.
struct RoomWithout {
  FreeGpus now, later;
};
// Nothing where others count on what these have done. `victims`: all_victims() of the claims.
std::optional<RoomWithout> room_without(const ClusterState& state, const Space& space, const std::vector<Taken>& claims,
                                        const VictimSet& victims, const SoFar& before);

// Would the quotas hold the claims if they had these types?
using AllowedTypes = std::function<bool(const std::vector<Taken>& claims, const std::vector<int>& types)>;

// What the search may cost, so that it takes no longer than several of them may.
struct JointSteps {
  int budget = 0;                    // as of find_victims()
  int packing = 10 * kPackingSteps;  // with at most kFewTogether borrowers
};

// Finds victims and places for all `claims` together. The answer has those with the largest learners first, otherwise
// in the given order, each with its type, its place (a free one if there is one) and with the victims that it needs in
// addition to those of the claims before it. Nothing if the loss is not smaller than that of the victims the claims
// have now, or if other decisions depend on the present places. `space`: with the claims' present places and victims
// counted. `before`: what was asked of jobs without any of these claims. `candidates`: borrowers that may be asked.
//
// How good it is:
// - With at most kFewTogether borrowers of each type and kMostChoices ways to give the claims their types, the joint
//   loss is the least there is, as long as `most.budget` steps, and as many for all other ways together, and the steps
//   of packing (gangs_room.h) are enough; VictimSet::exact says so. Learners may have any sizes.
// - With more ways each claim keeps the type that it has; otherwise the same.
// - With more borrowers, for claims of learners with one GPU that nobody shrinks for, it exceeds the least by at most
//   one victim's loss.
// - Always it is at most that of one claim after another. Where sizes are multiples of one another, or packing was not
//   cut short, every victim is needed. On 160 full nodes of 8 GPUs with 20 to 60 claims it was at most 1.80 times what
//   would be lost if parts of jobs could be stopped, and no set can lose less than that; the test allows 2.
std::optional<std::vector<Taken>> take_jointly(const ClusterState& state, const Space& space, std::vector<Taken> claims,
                                               const std::vector<int>& candidates, const SoFar& before,
                                               const JointSteps& most, const AllowedTypes& allowed);

constexpr size_t kFewTogether = 512;
constexpr size_t kMostChoices = 256;

}  // namespace dl::policy
