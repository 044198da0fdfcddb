// SPDX-License-Identifier: Apache-2.0
// A guaranteed job may not borrow. Where jobs that may hold its tenant's quota, they give way to it, and nobody else
// does: some are charged as borrowed instead, without noticing, if there are GPUs to be lent; else some stop or shrink.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {

// Quotas as guaranteed jobs see them: everything that others hold of one could be theirs.
class OwnTenant {
 public:
  // `state`: with the running jobs charged by charge(); `so_far`: as they are charged until now. Both must outlive it.
  OwnTenant(const ClusterState& state, const ClusterState& so_far);

  // Running jobs of the tenant that may borrow, and can be taken from at some time.
  const std::vector<int>& may_yield(int tenant) const { return may_yield_[tenant]; }
  // Would so many GPUs more fit beside the tenant's guaranteed jobs alone? False if no job of its own is in the way.
  bool could_hold(int tenant, int type, int gpus) const;
  // Jobs on the tenant's quota that would not fit beside so many guaranteed GPUs more, each with `learners` of it
  // running, by job of the state. First those stay that are charged as own so far, then the oldest, so that the answer
  // stays the same once it is carried out. kNow: beside the guaranteed jobs that run or start, without those that were
  // recharged; kLater: beside those that wait for victims too, without those that were displaced for them.
  enum class When { kNow, kLater };
  std::vector<int> displaced(When when, int tenant, int type, int gpus, const std::vector<int>& learners) const;

  // Would what other tenants keep stay theirs, if the guaranteed job ran on GPUs of that type, `moved` were charged as
  // borrowed, and all jobs had so many learners? `ledger`: of the running jobs, and what was decided before.
  bool lent_beside(Ledger ledger, const Job& job, int type, const std::vector<int>& moved,
                   const std::vector<int>& learners) const;
  // They stay what they are, and nothing else of their tenant's becomes borrowed: nothing more is borrowed.
  bool all_borrowed_so_far(const std::vector<int>& jobs) const;
  int gpus_of(const std::vector<int>& jobs, const std::vector<int>& learners) const;

  // A claim starts, or will: a guaranteed one, or one that may borrow and does not give way before it runs.
  void hold(When when, int tenant, int type, int gpus);
  // Jobs are charged as borrowed, or will be.
  void displace(When when, const std::vector<int>& jobs);
  bool recharged(int job) const { return out_[job] == 2; }
  // Those that will be.
  std::vector<int> to_be_recharged(int tenant) const;

 private:
  const ClusterState& state_;
  const ClusterState& so_far_;
  Ledger now_;                              // guaranteed jobs that run or start
  Ledger later_;                            // and those that wait for victims
  std::vector<std::vector<int>> on_quota_;  // by tenant: jobs that may borrow and are own, in the order they stay
  std::vector<std::vector<int>> may_yield_;
  std::vector<std::pair<int, int>> running_;  // jobs, and how many learners they have
  std::vector<char> left_quota_;              // by tenant: charge() has just moved one of its jobs out of the quota
  std::vector<char> out_;                     // by job: 0 stays, 1 will be charged as borrowed, 2 is
};

// Those of `queue` (pending jobs, oldest first) that may have quota, in this order; but those of a tenant that may
// borrow come after its last guaranteed one: what they took of the quota it would take back.
std::vector<int> order_of_claims(const ClusterState& state, const std::vector<int>& queue);

// find_victims() where room alone is not enough: `allowed` has to say yes to the victims too. Stops as many more of
// `also` as it takes, the least loss for a GPU first; then gives back what is not needed, the greatest loss first. The
// loss is the least there is if `allowed` needs no more than the room does; else no victim can be put back.
std::optional<VictimSet> find_allowed_victims(const ClusterState& state, const FreeGpus& free, int type,
                                              int gpus_per_learner, int learners, const std::vector<int>& candidates,
                                              const std::vector<int>& also, int* budget, const SoFar& so_far,
                                              const std::function<bool(const std::vector<Victim>&)>& allowed);

}  // namespace dl::policy
