// SPDX-License-Identifier: Apache-2.0
// Claims that find no free place: from whom they take GPUs back, and whom they wait for.
#include "slurm-plugin/policy/claim_service.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "slurm-plugin/policy/placement.h"

namespace dl::policy {

// The claim finds no free place: it takes back, or waits for those it may take from later. False if no set of victims
// would help: then it may be lent to like anybody else, should a place turn up.
bool ClaimService::take_back(int index, From from) {
  const Job& job = round_.state.jobs[index];
  if (known_hopeless(job, from)) return false;
  if (std::optional<Found> found = cheapest(index, Space::When::kLater, from)) {
    Waiting& waiting = round_.wait(index, Reason::kVictimsLeaving);
    Taken taken = commit(index, *found, Space::When::kLater);
    taken.within = from == From::kOwnTenant;
    waiting.parts = taken.kept.parts;
    waiting.kept_for = true;
    waiting.free = round_.free.total(found->type);
    waiting.within_tenant = from == From::kOwnTenant;
    if (!is_promised(index)) taken_.push_back(std::move(taken));
    if (!found->set.victims.empty())
      round_.decision.reclaims.push_back(Reclaim{index, found->type, waiting.parts, std::move(found->set)});
    return true;
  }
  if (wait_for_protected(index, from)) return true;
  int& least = hopeless_[static_cast<size_t>(from)][kind_of(job)];
  least = least == 0 ? job.min_learners : std::min(least, job.min_learners);
  return false;
}

// Free GPUs and borrowers only become fewer in one decision: what found no place is not tried again for a like job.
bool ClaimService::known_hopeless(const Job& job, From from) const {
  const auto& hopeless = hopeless_[static_cast<size_t>(from)];
  const auto found = hopeless.find(kind_of(job));
  return found != hopeless.end() && found->second <= job.min_learners;
}

std::optional<ClaimService::Found> ClaimService::cheapest(int index, Space::When when, From from) {
  const FreeGpus& room = space_.at(when);
  const bool also_protected = when == Space::When::kLast;
  const Job& job = round_.state.jobs[index];
  if (from == From::kBorrowers) {
    return cheapest_of_types(job, [&](int type) -> std::optional<VictimSet> {
      if (learners_for(job, round_.ledger.own_left(job.tenant, type)) == 0) return std::nullopt;
      return borrowers_.find(round_.state.jobs[index], type, when);
    });
  }
  std::vector<int> own;
  for (const int other : round_.own_tenant.may_yield(job.tenant))
    if (so_far_.left[other] > 0 && (also_protected || (planned_[other] == 0 && may_be_asked(round_.state.jobs[other]))))
      own.push_back(other);
  // From its own tenant's jobs it may take what is on the quota, too. As in leave_quota().
  std::vector<int> had;
  for (const int other : own) had.push_back(std::exchange(so_far_.own[other], 0));
  const auto among = [&](const std::vector<int>& candidates, bool beside_borrowers) {
    return cheapest_of_types(job, [&](int type) -> std::optional<VictimSet> {
      if (!round_.own_tenant.could_hold(job.tenant, type, round_.asked(index))) return std::nullopt;
      return find_allowed_victims(
          round_.state, room, type, job.gpus_per_learner, job.min_learners, candidates, own, &budget_, so_far_,
          [&](const auto& victims) { return leave_quota(index, type, when, victims, beside_borrowers); });
    });
  };
  // Others give way only as far as the tenant, with this job, stays within its quota.
  auto found = among(own, true);
  if (!found) {
    std::vector<int> both;
    const std::vector<int> others = borrowers_.all(when);
    std::set_union(others.begin(), others.end(), own.begin(), own.end(), std::back_inserter(both));
    found = among(both, false);
  }
  for (size_t i = 0; i < own.size(); ++i) so_far_.own[own[i]] = had[i];
  return found;
}

template <typename Search>
std::optional<ClaimService::Found> ClaimService::cheapest_of_types(const Job& job, Search search) const {
  std::optional<Found> best;
  for (int type = 0; type < round_.state.type_count(); ++type) {
    if (!may_use(job, type)) continue;
    auto set = search(type);
    if (set && (!best || less_loss(*set, best->set))) best = Found{type, std::move(*set)};
  }
  return best;
}

// With the victims gone, does the quota hold the guaranteed job, once those of its tenant that are left over are
// charged as borrowed, if they may be? Victims that are asked now (kLater) have to do without those that will be asked
// when they are not protected any more: else they would have gone, and the job could still not start.
bool ClaimService::leave_quota(int index, int type, Space::When when, const std::vector<Victim>& victims,
                               bool may_recharge) {
  // For so long as it is asked; a copy would be as long as the list of jobs, for each of thousands of claims.
  const bool last = when == Space::When::kLast;
  std::vector<int>& left = last ? so_far_.left : left_asked_;
  const auto leave = [&](int job, int from, int to) {
    round_.own_tenant.give_up(last ? &round_.after : &round_.after_asked, job, from, to);
    left[job] = to;
  };
  std::vector<int> had;
  for (const Victim& victim : victims) {
    had.push_back(left[victim.job]);
    leave(victim.job, had.back(), victim.learners_left);
  }
  const bool leaves = quota_holds(index, type, when, may_recharge);
  for (size_t i = victims.size(); i-- > 0;) leave(victims[i].job, victims[i].learners_left, had[i]);
  return leaves;
}

bool ClaimService::quota_holds(int index, int type, Space::When when, bool may_recharge) {
  const Job& job = round_.state.jobs[index];
  const bool last = when == Space::When::kLast;
  Ledger* after = last ? &round_.after : &round_.after_asked;
  const std::vector<int>& left = last ? so_far_.left : left_asked_;
  const std::vector<Leaving> moved =
      round_.own_tenant.displaced(When::kLater, job.tenant, type, round_.asked(index), left);
  const std::vector<Leaving> waiting = round_.own_tenant.to_be_recharged(job.tenant);
  // Those that have gone by then do not have to be charged as borrowed.
  if (moved.empty() && round_.own_tenant.gpus_of(waiting, left) == 0) return true;
  if (!may_recharge) return false;
  if (round_.own_tenant.all_borrowed_so_far(moved) && round_.own_tenant.all_borrowed_so_far(waiting)) return true;
  const int limit = round_.state.tenants[job.tenant].borrow_limit;
  if (limit != kNoLimit) {
    const int recharged = round_.own_tenant.gpus_of(moved, left) + round_.own_tenant.gpus_of(waiting, left);
    if (after->borrowed(job.tenant) + recharged > limit) return false;
  }
  // What was promised while it could be lent stays so.
  return job.promised || round_.own_tenant.lent_beside(after, job, type, moved, left);
}

// The claim's place is decided, and kept. The victims stay in the ledger until they have gone, so that their tenant
// does not borrow more than it may meanwhile. Who was promised a place stays there, if it holds still.
Taken ClaimService::commit(int index, const Found& found, Space::When when) {
  const Job& job = round_.state.jobs[index];
  for (const Victim& victim : found.set.victims) {
    ask(victim, when);
    if (when == Space::When::kLast) planned_[victim.job] = 1;
  }
  Taken taken{index, found.type, {}, found.set, false, {}, false, hold_quota(index, found.type)};
  const std::vector<Part>& promised = job.promised_parts;
  const bool stays = !promised.empty() && round_.state.nodes[promised.front().node].type == found.type &&
                     space_.holds(when, promised, job.gpus_per_learner);
  auto parts = stays ? std::optional(promised)
                     : place(job.placement, space_.at(when), found.type, job.gpus_per_learner, job.min_learners);
  // It cannot be that there are none: the victims were chosen so that it fits.
  if (parts) taken.kept = space_.keep(when, std::move(*parts), job.gpus_per_learner);
  return taken;
}

void ClaimService::ask(const Victim& victim, Space::When when) {
  const Job& gone = round_.state.jobs[victim.job];
  int& left = so_far_.left[victim.job];
  space_.give_up(when, parts_after_shrink(gone.parts, left), victim.learners_left, gone.gpus_per_learner);
  if (when == Space::When::kLast) {
    round_.plan_to_leave(victim.job, left, victim.learners_left);
  } else {
    round_.leave(victim.job, left, victim.learners_left);
    left_asked_[victim.job] = victim.learners_left;
  }
  left = victim.learners_left;
}

bool ClaimService::wait_for_protected(int index, From from) {
  if (protected_.empty() && from == From::kBorrowers) return false;
  const std::optional<Found> found = cheapest(index, Space::When::kLast, from);
  if (!found) return false;
  int64_t seconds = 0;
  for (const Victim& victim : found->set.victims) {
    const Job& other = round_.state.jobs[victim.job];
    seconds = std::max(seconds, other.start_s + other.min_run_s - round_.state.now_s);
  }
  Waiting& waiting = round_.wait(index, Reason::kVictimsProtected);
  waiting.parts = commit(index, *found, Space::When::kLast).kept.parts;
  waiting.seconds = seconds;
  waiting.kept_for = true;
  waiting.within_tenant = from == From::kOwnTenant;
  waiting.free = round_.free.total(found->type);
  return true;
}

}  // namespace dl::policy
