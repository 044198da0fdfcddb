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

// So many GPUs of a running job, charged to the quota until now, count as borrowed from now on, or will.
struct Leaving {
  int job = 0;
  int gpus = 0;
};
// By job, each once: of one that is in both lists the sum, or the greater number.
std::vector<Leaving> all_beside(const std::vector<Leaving>& a, const std::vector<Leaving>& b);
std::vector<Leaving> all_of(const std::vector<Leaving>& a, const std::vector<Leaving>& b);

// Quotas as guaranteed jobs see them: everything that others hold of one could be theirs.
class OwnTenant {
 public:
  // `state`: with the running jobs charged by charge(); `so_far`: as they are charged until now. Both must outlive it.
  OwnTenant(const ClusterState& state, const ClusterState& so_far);

  // Running jobs of the tenant that may borrow, and can be taken from at some time.
  const std::vector<int>& may_yield(int tenant) const { return may_yield_[tenant]; }
  // Would so many GPUs more fit the tenant's own quota beside its guaranteed jobs alone? False if no job of its own is
  // in the way.
  bool could_hold(int tenant, int type, int gpus) const;
  // What of the tenant's jobs on its quota would not fit beside so many guaranteed GPUs more, each with `learners` of
  // it running, by job of the state. First those stay that are charged as own so far, then the oldest, so that the
  // answer stays the same once it is carried out. kNow: beside the guaranteed jobs that run or start, without what was
  // recharged; kLater: beside those that wait for victims too, without what was displaced for them.
  enum class When { kNow, kLater };
  std::vector<Leaving> displaced(When when, int tenant, int type, int gpus, const std::vector<int>& learners) const;

  // Would what other tenants keep stay theirs, if the guaranteed job ran on GPUs of that type, and `moved` were charged
  // as borrowed? `after`: of the running jobs, each with so many learners, and what was decided before. It is left as
  // it was: a copy would be as long as the list of tenants, for each of thousands of claims.
  bool lent_beside(Ledger* after, const Job& job, int type, const std::vector<Leaving>& moved,
                   const std::vector<int>& learners) const;
  // Counts a running job with `to` learners instead of `from`.
  void give_up(Ledger* ledger, int job, int from, int to) const;
  // They stay what they are, and nothing else of their tenant's becomes borrowed: nothing more is borrowed.
  bool all_borrowed_so_far(const std::vector<Leaving>& jobs) const;
  // What they borrow by that, each with `learners` of it running.
  int gpus_of(const std::vector<Leaving>& jobs, const std::vector<int>& learners) const;
  // Of a job that runs with so many learners, what is borrowed already.
  int borrowed(int job, int learners) const;

  // A claim starts, or will: a guaranteed one, or one that may borrow and does not give way before it runs.
  void hold(When when, int tenant, int type, int gpus);
  // They are charged as borrowed, or will be.
  void displace(When when, const std::vector<Leaving>& jobs);
  // Those that will be.
  std::vector<Leaving> to_be_recharged(int tenant) const;
  // All that were displaced so far, by job; kLater: those of kNow too.
  std::vector<Leaving> all_out(When when) const;

 private:
  // Of a job that runs with so many learners: on the quota now.
  int own(int job, int learners) const;

  const ClusterState& state_;
  const ClusterState& so_far_;
  Ledger now_;                              // guaranteed jobs that run or start
  Ledger later_;                            // and those that wait for victims
  std::vector<std::vector<int>> on_quota_;  // by tenant: jobs that may borrow and have quota, in the order they stay
  std::vector<std::vector<int>> may_yield_;
  std::vector<char> left_quota_;  // by tenant: charge() has just moved one of its jobs out of the quota
  std::vector<int> own_;          // by job: GPUs on the quota now
  std::vector<int> out_now_;      // by job: GPUs that are charged as borrowed since this decision
  std::vector<int> out_later_;    // and that will be, those of now among them
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
