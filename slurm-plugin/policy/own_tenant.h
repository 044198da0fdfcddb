// SPDX-License-Identifier: Apache-2.0
// A guaranteed job may not borrow. If jobs that may borrow hold its tenant's quota, these make way for it: if there are
// GPUs to be lent, some are charged as borrowed instead, which does not affect them; else some stop or shrink.
// Borrowers of other tenants are asked too only where that alone leaves no place.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {

// GPUs of a running job that leave its tenant's quota: charged as borrowed from now on, or once a waiting claim starts.
struct Leaving {
  int job = 0;
  int gpus = 0;
};
// Both lists as one, each job once. For a job in both, all_beside() has the sum, all_of() the greater number.
std::vector<Leaving> all_beside(const std::vector<Leaving>& a, const std::vector<Leaving>& b);
std::vector<Leaving> all_of(const std::vector<Leaving>& a, const std::vector<Leaving>& b);

// Tenants' quotas as their guaranteed jobs see them: what the tenant's other jobs hold of one is available to them.
class OwnTenant {
 public:
  // `state`: with the running jobs charged by charge(); `so_far`: as they were charged before. Both must outlive this.
  OwnTenant(const ClusterState& state, const ChargedBefore& so_far);

  // Running jobs of the tenant that are not guaranteed and can be asked to yield, now or after their minimum run time.
  const std::vector<int>& may_yield(int tenant) const { return may_yield_[tenant]; }
  // Would so many GPUs more fit the tenant's own quota if only what hold() counts and its running guaranteed jobs used
  // it? False if no other job of the tenant is in the way.
  bool could_hold(int tenant, int type, int gpus) const;
  // What would have to leave the tenant's quota for so many guaranteed GPUs more. `learners`: how many each job of the
  // state runs with. Jobs that were charged as own before stay first, then the oldest, so that the answer stays the
  // same once it is carried out. kNow: counts guaranteed jobs that run or start, and what was recharged for them;
  // kLater: also those that wait for victims, and what will be recharged for them.
  enum class When { kNow, kLater };
  std::vector<Leaving> displaced(When when, int tenant, int type, int gpus, const std::vector<int>& learners) const;

  // Would the GPUs suffice for what other tenants keep from being lent, if the guaranteed job ran on GPUs of that type
  // and `moved` were charged as borrowed? `after`: a ledger of the running jobs with `learners` each, and of what was
  // decided before. It is changed and restored: to copy it for each of thousands of claims would be slow.
  bool lent_beside(Ledger* after, const Job& job, int type, const std::vector<Leaving>& moved,
                   const std::vector<int>& learners) const;
  // Counts a running job with `to` learners instead of `from` in the ledger.
  void give_up(Ledger* ledger, int job, int from, int to) const;
  // True if these were charged as borrowed before, and charge() moved no job of their tenant out of the quota: then the
  // tenant borrows no more than before.
  bool all_borrowed_so_far(const std::vector<Leaving>& jobs) const;
  // GPUs that these jobs come to borrow by leaving the quota, with `learners` of each running.
  int gpus_of(const std::vector<Leaving>& jobs, const std::vector<int>& learners) const;
  // GPUs of a job, if it runs with so many learners, that are borrowed already.
  int borrowed(int job, int learners) const;

  // Counts GPUs of a claim that must not be displaced again: kNow if it starts, or if it waits and is not guaranteed;
  // kLater if it is guaranteed and waits for victims. Negative: no longer.
  void hold(When when, int tenant, int type, int gpus);
  // Notes that these are charged as borrowed from now on (kNow), or once a waiting claim starts (kLater; negative: no
  // longer).
  void displace(When when, const std::vector<Leaving>& jobs);
  // Jobs of the tenant that were displaced for waiting claims, and are not yet charged as borrowed.
  std::vector<Leaving> to_be_recharged(int tenant) const;
  // What displace() has noted with kLater, so that it can be restored once something else was tried.
  const std::vector<int>& noted() const { return out_later_; }
  void restore(std::vector<int> noted) { out_later_ = std::move(noted); }
  // All that were displaced in this decision, by job; kLater includes those of kNow.
  std::vector<Leaving> all_out(When when) const;

 private:
  // GPUs of a job, if it runs with so many learners, that are on the quota now.
  int own(int job, int learners) const;

  const ClusterState& state_;
  const ChargedBefore& so_far_;
  Ledger now_;                              // running guaranteed jobs, and what was held with kNow
  Ledger later_;                            // the same, and what was held with kLater
  std::vector<std::vector<int>> on_quota_;  // by tenant: other jobs with quota, in the order in which they keep it
  std::vector<std::vector<int>> may_yield_;
  std::vector<char> left_quota_;  // by tenant: charge() has moved one of its jobs out of the quota
  std::vector<int> own_;          // by job: GPUs on the quota now
  std::vector<int> out_now_;      // by job: GPUs displaced with kNow
  std::vector<int> out_later_;    // by job: GPUs displaced with either
  bool nobody_out_ = true;
};

// The jobs of `queue` (pending, oldest first) that may use quota, in this order; but those of a tenant that may borrow
// come after its last guaranteed one, which would take the quota back from them.
std::vector<int> order_of_claims(const ClusterState& state, const std::vector<int>& queue);

// find_victims() with one more condition: `allowed` must accept the victims. If it does not accept those that make
// room, jobs of `also` stop too until it does, the least loss per GPU first; then victims that are not needed are
// dropped, the greatest loss first. If `allowed` accepts the first set, the loss is the least possible; else `exact` is
// false.
std::optional<VictimSet> find_allowed_victims(const ClusterState& state, const FreeGpus& free, int type,
                                              int gpus_per_learner, int learners, const std::vector<int>& candidates,
                                              const std::vector<int>& also, int* budget, const SoFar& so_far,
                                              const std::function<bool(const std::vector<Victim>&)>& allowed);

}  // namespace dl::policy
