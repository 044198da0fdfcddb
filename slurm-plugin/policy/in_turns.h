// SPDX-License-Identifier: Apache-2.0
// Chooses the victims of all claims of a decision together where some of them are guaranteed claims to which jobs of
// their own tenant yield (own_tenant.h). It finds the set of victims that loses least of all sets that the rules allow.
// Only for small clusters, since it may try many sets. Pure.
//
// A set of victims is allowed if the claims can be served one after another ("in turns") and all of these hold:
// - There is an order of the claims, and a type of GPU for each of them, for which this works.
// - At its turn a claim takes some of the victims. Each of these may be asked for this claim. With them this claim and
//   all claims before it have room at the same time.
// - No victim is needless: without it those claims would not have room, or the quota would not hold a guaranteed claim.
//
// Which jobs may be asked for a claim depends on the turns before it:
// - If the quota of its tenant holds the claim: borrowers.
// - If not, and the claim is guaranteed: jobs of its own tenant. If all of those together are not enough: borrowers,
//   too.
//
// Sets are tried in the order of their loss, the smallest first, and the first one that is allowed is the answer.
// in_turns.cpp makes the sets in that order, turn_orders.* finds out whether a set is allowed, turn_rooms.* whether
// claims have room, and turn_places.* gives the claims their places.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/joint.h"

namespace dl::policy {

// If there are more claims than this, or more jobs that may yield, nothing is tried.
constexpr size_t kMostInTurns = 8;
constexpr size_t kMostYielding = 24;
// If there are more ways than this to give each claim one of its types, each claim keeps the type that it has.
constexpr size_t kMostTypesInTurns = 64;
// The limit of this sum over all jobs that may yield: (number of sizes that the job may have) x (number of its nodes).
// If the sum is larger, nothing is tried.
constexpr int64_t kMostChanges = 8192;
// How many sets of victims are kept in memory until they are tried: about 100 bytes each.
constexpr size_t kMostSetsKept = 100'000;
// One decision may take so many steps for each of ClusterState::search_budget. A step is to look at what one node has
// free, or at what one job frees on one node.
constexpr int64_t kStepsInTurns = 100;

// A running job that may be asked to yield.
struct Yielding {
  int job = 0;
  bool borrower = false;       // it may be asked for the GPUs that it has borrowed
  bool of_guaranteed = false;  // a guaranteed claim of its own tenant may ask it for all its GPUs
};

// The quotas while claims are served one after another. At first they count none of the claims.
class TurnQuotas {
 public:
  TurnQuotas() = default;
  TurnQuotas(const TurnQuotas&) = delete;
  TurnQuotas& operator=(const TurnQuotas&) = delete;
  virtual ~TurnQuotas() = default;

  // Would the quota hold the job beside all that it holds now?
  virtual bool fits(int job, int type) = 0;
  // Could the quota hold the job if jobs of its own tenant yielded? (OwnTenant::could_hold())
  virtual bool could_hold(int job, int type) = 0;
  // Would the quota hold the guaranteed job once these victims have gone, too? With `may_recharge`, other jobs of its
  // tenant may be charged as borrowed to make room.
  virtual bool leaves(int job, int type, const std::vector<Victim>& victims, bool may_recharge) = 0;
  // Counts the job as running and its victims as gone. undo() takes back the newest serve().
  virtual void serve(int job, int type, const std::vector<Victim>& victims) = 0;
  virtual void undo() = 0;
};

// Returns the claims in the order of their turns. Of each are set: its type, its place, `now`, `within` and its
// victims. Returns nothing if the victims that the claims have already lose as little, or if *steps were used up.
// *steps is counted down. No clock is read, so the same state always has the same answer.
//   claims          with the types that each may have
//   before, room    what was asked of jobs, and what is free, without any of the claims
//   some_protected  there are borrowers that may not be asked yet; a claim that its quota holds waits for these, and
//                   does not ask jobs of its own tenant
std::optional<std::vector<Taken>> take_in_turns(const ClusterState& state, const RoomWithout& room,
                                                const std::vector<Taken>& claims,
                                                const std::vector<Yielding>& candidates, bool some_protected,
                                                const SoFar& before, int64_t* steps, TurnQuotas* quotas);

}  // namespace dl::policy
