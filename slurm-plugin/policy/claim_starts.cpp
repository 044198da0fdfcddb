// SPDX-License-Identifier: Apache-2.0
// Claims that start on GPUs that are free.
#include "slurm-plugin/policy/claim_service.h"

#include <algorithm>
#include <utility>

#include "slurm-plugin/policy/balance.h"
#include "slurm-plugin/policy/placement.h"

namespace dl::policy {

// What leaves for a claim is meant for it; it does not take another place meanwhile unless it finds one whole.
bool ClaimService::start_on_free(int index, const Allowed& allowed) {
  const Job& job = round_.state.jobs[index];
  for (int type = 0; type < round_.state.type_count(); ++type) {
    if (!may_use(job, type) || !allowed(type)) continue;
    const int most = learners_for(job, round_.ledger.own_left(job.tenant, type));
    const int possible =
        std::min({most, round_.users.most_learners(job), round_.free.slots(type, job.gpus_per_learner)});
    const int learners = smallest_ ? std::min(possible, job.min_learners) : possible;
    if (learners < job.min_learners) continue;
    auto parts = place(job.placement, round_.free, type, job.gpus_per_learner, learners);
    if (!parts) continue;
    if (learners < possible) cut_short_.push_back(round_.decision.starts.size());
    start(index, type, std::move(*parts));
    return true;
  }
  return false;
}

// A pending job that fits its tenant's quota on some type. False: it does not, and may be lent to.
bool ClaimService::claim(int index) {
  const Job& job = round_.state.jobs[index];
  const bool fits = fits_quota(job);
  if (!fits && !round_.is_guaranteed(index)) return false;
  const auto any = [](int) { return true; };
  if (start_on_free(index, any)) return true;
  if (fits && take_back(index, From::kBorrowers)) return true;
  const bool firm = round_.is_guaranteed(index) && could_hold(job);
  if (firm && (start_beside_own_tenant(index, any) || take_back(index, From::kOwnTenant))) return true;
  // Victims have been asked for it, and have not gone yet. Those of a loan make place for a loan.
  if (!(fits || firm) || is_loan(job) || leaving_for_.count(job.id) == 0) return false;
  round_.wait(index, Reason::kVictimsLeaving).within_tenant = !fits;
  return true;
}

void ClaimService::start(int index, int type, std::vector<Part> parts) {
  space_.started(parts, round_.state.jobs[index].gpus_per_learner);
  round_.start(index, Charge::kOwn, type, std::move(parts));
}

// An elastic claim that starts at its smallest size gets what nobody was promised.
void ClaimService::grow(Start* start) {
  const Job& job = round_.state.jobs[start->job];
  FreeGpus free = round_.free;
  free.give(start->parts, job.gpus_per_learner);
  const int left = round_.ledger.own_left(job.tenant, start->type) / job.gpus_per_learner;
  const int learners = std::min({job.max_learners, job.min_learners + std::min(left, round_.users.room(job)),
                                 free.slots(start->type, job.gpus_per_learner)});
  if (learners <= job.min_learners) return;
  auto parts = place(job.placement, free, start->type, job.gpus_per_learner, learners);
  if (!parts) return;
  space_.ended(start->parts, job.gpus_per_learner);
  space_.started(*parts, job.gpus_per_learner);
  round_.replace(start, std::move(*parts));
}

bool ClaimService::could_hold(const Job& job) const {
  const int gpus = job.min_learners * job.gpus_per_learner;
  for (int type = 0; type < round_.state.type_count(); ++type)
    if (may_use(job, type) && round_.own_tenant.could_hold(job.tenant, type, gpus)) return true;
  return false;
}

// Starts a guaranteed job on free GPUs that could be lent: jobs of its tenant are charged as borrowed instead.
bool ClaimService::start_beside_own_tenant(int index, const Allowed& allowed) {
  const Job& job = round_.state.jobs[index];
  for (int type = 0; type < round_.state.type_count(); ++type) {
    if (!may_use(job, type) || !allowed(type) || !round_.own_tenant.could_hold(job.tenant, type, round_.asked(index)))
      continue;
    if (round_.free.slots(type, job.gpus_per_learner) < job.min_learners) continue;
    const std::vector<Leaving> now =
        round_.own_tenant.displaced(When::kNow, job.tenant, type, round_.asked(index), round_.learners);
    const std::vector<Leaving> later =
        round_.own_tenant.displaced(When::kLater, job.tenant, type, round_.asked(index), round_.learners);
    const std::vector<Leaving> moved = all_of(all_beside(later, round_.own_tenant.to_be_recharged(job.tenant)), now);
    if (!round_.own_tenant.all_borrowed_so_far(moved) &&
        !(round_.ledger.within_borrow_limit(job.tenant, round_.own_tenant.gpus_of(moved, round_.learners)) &&
          (job.promised || round_.own_tenant.lent_beside(&round_.after, job, type, moved, so_far_.left))))
      continue;
    auto parts = place(job.placement, round_.free, type, job.gpus_per_learner, job.min_learners);
    if (!parts) continue;
    round_.own_tenant.displace(When::kLater, later);
    recharge(now);
    start(index, type, std::move(*parts));
    return true;
  }
  return false;
}

// Own so far, and borrowed from now on: whoever may take back borrowed GPUs may take these.
void ClaimService::recharge(const std::vector<Leaving>& jobs) {
  for (const Leaving& leaving : jobs) {
    round_.leave(leaving.job, left_asked_[leaving.job], round_.learners[leaving.job]);
    round_.plan_to_leave(leaving.job, so_far_.left[leaving.job], left_asked_[leaving.job]);
  }
  round_.own_tenant.displace(When::kNow, jobs);
  for (const auto& [index, gpus] : jobs) {
    const Job& job = round_.state.jobs[index];
    round_.leave(index, round_.learners[index], left_asked_[index]);
    round_.plan_to_leave(index, left_asked_[index], so_far_.left[index]);
    round_.count(job.tenant, round_.state.type_held(job), -gpus, gpus);
    so_far_.own[index] -= gpus;
    before_.own[index] -= gpus;
    if (!job.pausable || so_far_.left[index] == 0) continue;
    std::vector<int>& list = may_be_asked(job) ? takeable_ : protected_;
    const auto at = std::lower_bound(list.begin(), list.end(), index);
    if (at == list.end() || *at != index) list.insert(at, index);
  }
  for (auto& jobs_without_hope : hopeless_) jobs_without_hope.clear();
  borrowers_.changed();
}

}  // namespace dl::policy
