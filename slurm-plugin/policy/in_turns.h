// SPDX-License-Identifier: Apache-2.0
// Guaranteed claims to which jobs of their own tenant yield (own_tenant.h), and the other claims of a decision beside
// them, on small clusters: of all sets of victims that the rules allow the one that loses least. Pure.
//
// A set of victims is allowed if the claims can be served with it in turns, in some order and with some of the types
// that each may have. At its turn a claim is given victims of the set, all of which may be asked for it, until all
// claims served so far fit at once; and none of them is needless: without it they would not fit, or, of a guaranteed
// claim, the quota would not hold. Who may be asked depends on what was decided in the turns before, as always:
// borrowers for a claim that its quota holds; else, for a guaranteed one, jobs of its own tenant; and borrowers beside
// these, if not even all of those are enough.
//
// Sets are tried in the order of their loss, and the first one that is allowed is the answer. The files: in_turns.cpp
// has that order, turn_orders.* whether one set is allowed, turn_rooms.* whether claims fit, turn_places.* where they
// run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/joint.h"

namespace dl::policy {

// More claims, or more jobs that may yield, are not tried in all orders.
constexpr size_t kMostInTurns = 8;
constexpr size_t kMostYielding = 24;
// With more ways to give the claims their types, each claim keeps the type that it has.
constexpr size_t kMostTypesInTurns = 64;
// A bound of the work: for each job that may yield, the number of its possible sizes times the number of its nodes,
// summed. Nothing is tried if the sum is larger.
constexpr int64_t kMostChanges = 8192;
// Sets of victims that wait for their turn to be tried, so that memory is bounded, too: about 100 bytes each.
constexpr size_t kMostSetsKept = 100'000;
// Steps of one decision for each step of its search for victims (ClusterState::search_budget). A step is one thing
// looked at: what one node has free, or what one job frees there.
constexpr int64_t kStepsInTurns = 100;

// A running job that may be asked.
struct Yielding {
  int job = 0;
  bool borrower = false;
  bool of_guaranteed = false;  // by guaranteed claims of its tenant, for all its GPUs
};

// The quotas while claims are served one after another. At first none of the claims is counted.
class TurnQuotas {
 public:
  TurnQuotas() = default;
  TurnQuotas(const TurnQuotas&) = delete;
  TurnQuotas& operator=(const TurnQuotas&) = delete;
  virtual ~TurnQuotas() = default;

  // Would the quota hold the job beside all that it holds now?
  virtual bool fits(int job, int type) = 0;
  // As OwnTenant::could_hold().
  virtual bool could_hold(int job, int type) = 0;
  // Would the quota hold the guaranteed job once these victims have gone, too? With `may_recharge`, other jobs of its
  // tenant may be charged as borrowed to make room.
  virtual bool leaves(int job, int type, const std::vector<Victim>& victims, bool may_recharge) = 0;
  // Counts the job as running and its victims as gone. undo() takes back the newest serve().
  virtual void serve(int job, int type, const std::vector<Victim>& victims) = 0;
  virtual void undo() = 0;
};

// The claims in the order of their turns, each with its type, its place, `now`, `within` and its victims. Nothing if
// the loss is not smaller than that of the victims that they have, or not found within *steps, which are counted down
// and do not depend on a clock: so the same state has the same answer everywhere. `claims`: each with its types.
// `before`, `room`: without any of the claims. `some_protected`: there are borrowers that may not be asked yet; a claim
// that the quota holds waits for these rather than for jobs of its own tenant.
std::optional<std::vector<Taken>> take_in_turns(const ClusterState& state, const RoomWithout& room,
                                                const std::vector<Taken>& claims,
                                                const std::vector<Yielding>& candidates, bool some_protected,
                                                const SoFar& before, int64_t* steps, TurnQuotas* quotas);

}  // namespace dl::policy
