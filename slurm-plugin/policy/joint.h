// SPDX-License-Identifier: Apache-2.0
// Finds the victims of several claims together. First, each claim finds its own victims, one claim after another, each
// at the least loss for itself. Together they often lose less: one large victim may do for all of them instead of eight
// small ones; the victim of a later claim may leave room for an earlier one; and claims that may have any type of GPU
// may take different types. Pure.
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
  bool now = false;                // set by the search: its place is free already, so it starts at once
  std::vector<int> types;          // all types that it may have, with `type`; empty: it may have `type` only
  bool within = false;             // it is guaranteed, and jobs of its own tenant yield to it (in_turns.h)
  std::vector<Leaving> displaced;  // jobs that will leave the quota for it
};

// The victims of all these claims. A job that several of them ask is listed once, with the fewest learners that it is
// to keep; not at all if others than these claims ask for as much. before: what others than these claims ask of jobs.
VictimSet all_victims(const ClusterState& state, const std::vector<Taken>& claims, const SoFar& before);

// What would be free if these claims had not taken anything. later: also what others than these claims have asked for.
struct RoomWithout {
  FreeGpus now, later;
};
// None if other claims use GPUs that the victims of these claims free. victims: all_victims() of the claims.
std::optional<RoomWithout> room_without(const ClusterState& state, const Space& space, const std::vector<Taken>& claims,
                                        const VictimSet& victims, const SoFar& before);

// Would the quotas hold the claims if they had these types?
using AllowedTypes = std::function<bool(const std::vector<Taken>& claims, const std::vector<int>& types)>;

// What one search may cost. If a decision needs several searches, the caller divides the steps among them.
struct JointSteps {
  int budget = 0;                    // as of find_victims()
  int packing = 10 * kPackingSteps;  // used where there are at most kFewTogether borrowers
};

// Finds victims and places for all `claims` together. Returns the claims, those with the largest learners first and
// otherwise in the given order, each with its type, its place (one that is free now, if there is one), and the victims
// that it needs beside those of the claims before it. Returns nothing if that would not lose less than the victims
// which the claims have now, or if other claims depend on the present places.
//   space       counts the present places and victims of the claims
//   before      what others than these claims ask of jobs
//   candidates  borrowers that may be asked
//
// How good it is:
// - The loss is the least possible if each type has at most kFewTogether borrowers, there are at most kMostChoices ways
//   to give the claims their types, and the steps in `most` were enough; VictimSet::exact says whether they were. This
//   holds for learners of any size.
// - If there are more ways than kMostChoices, each claim keeps its type; with these types the same holds.
// - If there are more borrowers, the learners of all claims have one GPU, and no borrower shrinks, the loss exceeds the
//   least one by at most the loss of one victim.
// - The loss is never larger than if each claim found its victims by itself.
// - No victim is needless if sizes are multiples of one another, or if no search was cut short.
// - Measured on 160 full nodes of 8 GPUs with 20 to 60 claims: the loss was at most 1.80 times what would be lost if
//   parts of jobs could be stopped, which no set of victims can undercut. The test allows 2 times.
std::optional<std::vector<Taken>> take_jointly(const ClusterState& state, const Space& space, std::vector<Taken> claims,
                                               const std::vector<int>& candidates, const SoFar& before,
                                               const JointSteps& most, const AllowedTypes& allowed);

constexpr size_t kFewTogether = 512;
constexpr size_t kMostChoices = 256;

}  // namespace dl::policy
