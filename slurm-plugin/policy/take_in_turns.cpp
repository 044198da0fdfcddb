// SPDX-License-Identifier: Apache-2.0
// Claims looked at together with those to which jobs of their own tenant yield (in_turns.h).
#include <algorithm>
#include <set>
#include <utility>

#include "slurm-plugin/policy/claim_service.h"
#include "slurm-plugin/policy/quotas_in_turns.h"

namespace dl::policy {

// True if other victims were found, at a lesser loss.
bool ClaimService::take_in_turns() {
  // A guaranteed claim may fit within its quota as it is, and yet have to take from its own tenant, too, if another
  // claim comes before it.
  const auto may_take_within = [&](const Taken& claim) {
    return claim.within || (taken_.size() > 1 && round_.is_guaranteed(claim.job));
  };
  if (taken_.size() > kMostInTurns || std::none_of(taken_.begin(), taken_.end(), may_take_within)) return false;
  std::vector<Taken> claims = taken_;
  std::set<int> claimants;
  for (Taken& claim : claims) {
    // Victims that are planned for other claims, too, were chosen beside theirs.
    for (const Victim& victim : claim.set.victims)
      if (planned_[victim.job] != 0) return false;
    claimants.insert(claim.job);
    claim.types.clear();
    for (int type = 0; type < round_.state.type_count(); ++type)
      if (may_use(round_.state.jobs[claim.job], type)) claim.types.push_back(type);
  }
  const SoFar before = before_all(claimants);
  const std::vector<Yielding> candidates = who_may_yield(claims, before);
  if (candidates.size() > kMostYielding) return false;
  const auto room = room_without(round_.state, space_, claims, all_victims(round_.state, claims, before), before);
  if (!room) return false;
  std::optional<std::vector<Taken>> found;
  {
    QuotasInTurns quotas(this, claims, before);
    found = policy::take_in_turns(round_.state, *room, claims, candidates, !protected_.empty(), before, &turn_steps_,
                                  &quotas);
  }
  if (!found) return false;
  put_in_place(claims, &*found, before);
  return true;
}

// `found` for the claims, in the order of their turns, instead of what they have.
void ClaimService::put_in_place(const std::vector<Taken>& claims, std::vector<Taken>* found, const SoFar& before) {
  take_up_all(claims, before);
  for (size_t i = claims.size(); i-- > 0;) release_quota(claims[i].job, claims[i].type, claims[i].displaced);
  const size_t starts = round_.decision.starts.size();
  for (Taken& claim : *found) {
    for (const Victim& victim : claim.set.victims) ask(victim, Space::When::kLater);
    claim.displaced = hold_quota(claim.job, claim.type);
  }
  // What starts takes GPUs that are free already, whatever becomes of the others.
  for (const bool now : {true, false})
    for (const Taken& claim : *found)
      if (claim.now == now) settle(claim);
  tell(*found, starts);
}

// Borrowers, and jobs of the tenants of guaranteed claims, that have anything to give beside what other claims have
// asked for. Not all of them where they are more than kMostYielding.
std::vector<Yielding> ClaimService::who_may_yield(const std::vector<Taken>& claims, const SoFar& before) const {
  std::set<int> tenants;
  std::set<int> types;
  for (const Taken& claim : claims) {
    types.insert(claim.types.begin(), claim.types.end());
    if (round_.is_guaranteed(claim.job)) tenants.insert(round_.state.jobs[claim.job].tenant);
  }
  std::vector<Yielding> all;
  for (const int other : borrowers_.all(Space::When::kLater)) {
    if (before.left[other] == 0 || types.count(round_.state.type_held(round_.state.jobs[other])) == 0) continue;
    all.push_back(Yielding{other, true, false});
    if (all.size() > kMostYielding) return all;
  }
  for (const int tenant : tenants) {
    for (const int other : round_.own_tenant.may_yield(tenant)) {
      if (before.left[other] == 0 || planned_[other] != 0 || !may_be_asked(round_.state.jobs[other])) continue;
      const auto same = std::find_if(all.begin(), all.end(), [&](const Yielding& one) { return one.job == other; });
      if (same != all.end()) {
        same->of_guaranteed = true;
        continue;
      }
      all.push_back(Yielding{other, false, true});
      if (all.size() > kMostYielding) return all;
    }
  }
  return all;
}

}  // namespace dl::policy
