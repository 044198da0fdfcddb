// SPDX-License-Identifier: Apache-2.0
// Who holds what: GPUs of each tenant as its own and borrowed, and what may still be held as either.
//
// Own: typed quota is used first, and what exceeds it comes out of the quota for any type:
//     sum over types of max(0, own[type] - quota[type])  <=  quota.any
// and what exceeds that, too, out of what the tenant's groups own (group_quota.h).
// Borrowed: bounded by the tenant's borrowing limit, and by what the others keep from being lent
// (keep = quota - lending limit - own, where positive), of this type and in all.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/group_quota.h"

namespace dl::policy {

class Ledger {
 public:
  // Counts the running jobs as they are charged. `with_groups` false: as if groups owned nothing.
  explicit Ledger(const ClusterState& state, bool with_groups = true);
  // The same before anybody holds anything.
  static Ledger of_nobody(const ClusterState& state, bool with_groups = true);

  // Would so many GPUs more be within the tenant's quota?
  bool fits_own(int tenant, int type, int gpus) const;
  // The most GPUs of a type that the tenant's quota still has.
  int own_left(int tenant, int type) const;
  // Within the tenant's borrowing limit?
  bool within_borrow_limit(int tenant, int gpus) const;
  // Of what no tenant keeps?
  bool lendable(int type, int gpus) const { return lendable_beside(kNobody, type, gpus); }
  // The same, but for what one tenant keeps itself.
  bool lendable_beside(int tenant, int type, int gpus) const;

  void add(int tenant, int type, int gpus, Charge charge);  // negative: gives back
  void add(int tenant, int type, int own, int borrowed);    // both at once
  // Of so many GPUs more, those that the quota still has.
  int own_part(int tenant, int type, int gpus) const;

  int own(int tenant) const;
  int own(int tenant, int type) const { return own_[at(tenant, type)]; }
  int borrowed(int tenant) const;
  int borrowed(int tenant, int type) const { return borrowed_[at(tenant, type)]; }
  double borrowed_weighted(int tenant) const;
  // GPUs of its quota that a tenant does not use.
  int idle_quota(int tenant) const;
  // How close to home the tenant would be lent so many GPUs: how deep in others the innermost of its groups lies of
  // which the quotas have them to lend within the group; 1 for one that lies in no other. 0 if none has.
  int depth_lent(int tenant, int gpus) const;
  // Used of what a group owns itself.
  int used_of_group(int group) const { return shared_.used(group); }

 private:
  enum class Jobs { kRunning, kNone };
  Ledger(const ClusterState& state, bool with_groups, Jobs jobs);
  size_t at(int tenant, int type) const {
    return static_cast<size_t>(tenant) * capacity_.size() + static_cast<size_t>(type);
  }
  // Counts what a tenant holds and keeps into spare_ (-1) or out of it (+1).
  void count(int tenant, int sign);
  int kept_of_type(int tenant, int type) const;
  int kept_any(int tenant) const;
  int own_beyond_typed(int tenant) const;

  const ClusterState* state_;
  std::vector<int> own_;       // by tenant and type
  std::vector<int> borrowed_;  // likewise
  std::vector<int> capacity_;
  // What nobody holds or keeps from being lent: of each type, and in all. There may be ten thousand questions about it
  // in one decision, of hundreds of tenants.
  std::vector<int> spare_;
  int spare_in_all_ = 0;
  std::vector<int> group_idle_;  // by group, with those that lie in it
  GroupQuota shared_;
  bool with_groups_;
};

// The job's smallest size is within its tenant's quota of a type that it may use, were all of that free.
bool could_be_own(const ClusterState& state, const Job& job);

// A running job that is counted differently from now on; it does not notice.
struct Move {
  int job = 0;  // index into the state's jobs
  Charge to = Charge::kOwn;
  int own_part = 0;  // Job::own_part from now on
};
void carry_out(const Move& move, Job* job);
// A job of which so many of its GPUs shall be charged to the quota. Nothing if that is so already.
std::optional<Move> move_to(int index, const Job& job, int own_gpus);

// How running jobs should be charged: each tenant's own quota to those that ask for it only, then to those that have it
// already, then to the oldest; the rest is borrowed. Of a job that does not fit what is left of the quota, what is left
// is own, and the rest borrowed: so of each type at most one job of a tenant is both. Charging twice moves nothing. A
// job that asked to borrow stays so, and one that asked not to stays own. An idle one is borrowed, unless its tenant
// would then borrow more than it may.
std::vector<Move> charge(const ClusterState& state);

}  // namespace dl::policy
