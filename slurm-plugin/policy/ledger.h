// SPDX-License-Identifier: Apache-2.0
// Counts the GPUs that each tenant holds as own and as borrowed, and tells how many more it may hold as either.
//
// Own: typed quota is used first, and what exceeds it comes out of the quota for any type:
//     sum over types of max(0, own[type] - quota[type])  <=  quota.any
// and what exceeds that, too, out of what the tenant's groups own (group_quota.h).
// Borrowed: bounded by the tenant's borrowing limit, and by what tenants keep from being lent: each keeps
// quota - lending limit - own, where positive, of each type and in all.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/group_quota.h"

namespace dl::policy {

class Ledger {
 public:
  // Counts the running jobs as they are charged. `with_groups` false: as if groups owned nothing.
  explicit Ledger(const ClusterState& state, bool with_groups = true);
  // A ledger in which nobody holds anything.
  static Ledger of_nobody(const ClusterState& state, bool with_groups = true);

  // Whether `gpus` more GPUs are within the tenant's quota.
  bool fits_own(int tenant, int type, int gpus) const;
  // How many more GPUs of a type fit the tenant's quota; negative if the quota is exceeded.
  int own_left(int tenant, int type) const;
  // Whether `gpus` more GPUs are within the tenant's borrowing limit.
  bool within_borrow_limit(int tenant, int gpus) const;
  // Whether there are `gpus` GPUs that no tenant holds or keeps from being lent.
  bool lendable(int type, int gpus) const { return lendable_beside(kNobody, type, gpus); }
  // The same, if `tenant` kept nothing.
  bool lendable_beside(int tenant, int type, int gpus) const;

  void add(int tenant, int type, int gpus, Charge charge);  // negative: gives back
  void add(int tenant, int type, int own, int borrowed);    // both at once
  // How many of `gpus` more GPUs the tenant's quota covers, from 0 to `gpus`.
  int own_part(int tenant, int type, int gpus) const;

  // GPUs that the tenant holds as own or as borrowed, of all types or of one.
  int own(int tenant) const;
  int own(int tenant, int type) const { return own_[at(tenant, type)]; }
  int borrowed(int tenant) const;
  int borrowed(int tenant, int type) const { return borrowed_[at(tenant, type)]; }
  // GPUs that the tenant borrows, each counted with the weight of its type (ClusterState::type_weight).
  double borrowed_weighted(int tenant) const;
  // GPUs of its quota that a tenant does not use.
  int idle_quota(int tenant) const;
  // How near the lender of `gpus` GPUs would be: the nesting depth of the tenant's innermost group in which at least so
  // much quota is idle. 1: a group that lies in no other; 0: no group has that much.
  int depth_lent(int tenant, int gpus) const;
  // GPUs used of the quota that a group itself owns.
  int used_of_group(int group) const { return shared_.used(group); }

 private:
  enum class Jobs { kRunning, kNone };
  Ledger(const ClusterState& state, bool with_groups, Jobs jobs);
  size_t at(int tenant, int type) const {
    return static_cast<size_t>(tenant) * capacity_.size() + static_cast<size_t>(type);
  }
  void hold(int tenant, int type, int own, int borrowed);  // as add(), without spare_
  // Subtracts what a tenant holds and keeps from spare_ (-1), or adds it again (+1).
  void count(int tenant, int sign);
  int kept_of_type(int tenant, int type) const;
  int kept_any(int tenant) const;
  int own_beyond_typed(int tenant) const;

  const ClusterState* state_;
  std::vector<int> own_;       // by tenant and type
  std::vector<int> borrowed_;  // likewise
  std::vector<int> capacity_;
  // GPUs that nobody holds or keeps from being lent: of each type, and in all. Kept up to date, as one decision may ask
  // for them ten thousand times, with hundreds of tenants.
  std::vector<int> spare_;
  int spare_in_all_ = 0;
  std::vector<int> group_idle_;  // by group: idle quota, with that of the groups in it
  GroupQuota shared_;
  bool with_groups_;
};

// Would the job's smallest size fit its tenant's quota of some type that it may use, if all of that were unused?
bool could_be_own(const ClusterState& state, const Job& job);

// A change of what a running job is charged as. The job itself is not affected.
struct Move {
  int job = 0;  // index into the state's jobs
  Charge to = Charge::kOwn;
  int own_part = 0;  // Job::own_part from now on
};
// Writes the move's charge and own_part into the job.
void carry_out(const Move& move, Job* job);
// The move after which `own_gpus` of the job's GPUs are charged to the quota. Nothing if that is so already.
std::optional<Move> move_to(int index, const Job& job, int own_gpus);
// The same of a job of `gpus` GPUs that is charged as `so_far` says.
std::optional<Move> move_to(const Move& so_far, int gpus, int own_gpus);

// How running jobs were charged before some moves were carried out.
class ChargedBefore {
 public:
  // `moves`: by job, as charge() returns them, and not carried out yet. Once they are, the state still has to outlive
  // this.
  ChargedBefore(const ClusterState& state, const std::vector<Move>& moves);

  // The job as it was charged: its `charge` and `own_part` alone are told.
  Move of(int job) const;
  // As Job::own_of().
  int own_of(int job, int gpus) const;
  const std::vector<Move>& moved() const { return were_; }

 private:
  const ClusterState& state_;
  std::vector<Move> were_;  // only those that were moved, by job
};

// How running jobs should be charged. Each tenant's quota goes to its guaranteed jobs, then to those charged to it
// already and to promises (Job::promised), then to the oldest; the rest is borrowed. A job larger than what is left of
// the quota is partly own: so of each type at most one job of a tenant is both. A second call, after the moves were
// carried out, moves nothing. Jobs of tier borrow are always borrowed, guaranteed ones always own; an idle job is
// borrowed, unless its tenant would then borrow more than it may.
std::vector<Move> charge(const ClusterState& state);

}  // namespace dl::policy
