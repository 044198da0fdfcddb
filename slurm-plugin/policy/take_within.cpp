// SPDX-License-Identifier: Apache-2.0
// Guaranteed claims to which jobs of their own tenant alone yield: those of one tenant and one type looked at together,
// on clusters of any size.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "slurm-plugin/policy/claim_service.h"
#include "slurm-plugin/policy/quotas_in_turns.h"

namespace dl::policy {

// What other claims take does not change. True if a tenant's claims got other victims.
bool ClaimService::take_within_tenants() {
  std::map<std::pair<int, int>, std::vector<Taken>> groups;  // by tenant and type
  for (const Taken& claim : taken_) {
    const int tenant = round_.state.jobs[claim.job].tenant;
    if (claim.within && takes_from_alone(claim, tenant)) groups[{tenant, claim.type}].push_back(claim);
  }
  std::set<int> claimants;
  for (auto group = groups.begin(); group != groups.end();) {
    if (!may_share(group->second)) {
      group = groups.erase(group);
      continue;
    }
    for (const Taken& claim : group->second) claimants.insert(claim.job);
    ++group;
  }
  if (groups.empty()) return false;
  // No job is a victim of two of these groups.
  SoFar before = before_all(claimants);
  JointSteps each;
  each.budget = round_.state.search_budget / static_cast<int>(groups.size());
  each.packing /= static_cast<int>(groups.size());
  bool changed = false;
  for (const auto& [key, claims] : groups) changed = take_within(key.first, claims, each, &before) || changed;
  return changed;
}

// Victims that are planned for other claims, too, were chosen beside theirs; those on other types, for the quota.
bool ClaimService::takes_from_alone(const Taken& claim, int tenant) const {
  return std::all_of(claim.set.victims.begin(), claim.set.victims.end(), [&](const Victim& victim) {
    const Job& job = round_.state.jobs[victim.job];
    return job.tenant == tenant && round_.state.type_held(job) == claim.type && planned_[victim.job] == 0;
  });
}

bool ClaimService::take_within(int tenant, std::vector<Taken> claims, const JointSteps& most, SoFar* before) {
  std::vector<int> candidates;
  for (const int other : round_.own_tenant.may_yield(tenant)) {
    const Job& job = round_.state.jobs[other];
    if (planned_[other] == 0 && may_be_asked(job) && round_.state.type_held(job) == claims.front().type)
      candidates.push_back(other);
  }
  for (Taken& claim : claims) claim.types.clear();
  // They may take what is on the quota, too.
  std::vector<int> had;
  for (const int other : candidates) had.push_back(std::exchange(before->own[other], 0));
  auto found = take_jointly(round_.state, space_, claims, candidates, *before, most,
                            [](const std::vector<Taken>&, const std::vector<int>&) { return true; });
  for (size_t i = 0; i < candidates.size(); ++i) before->own[candidates[i]] = had[i];
  if (!found || !quotas_hold_in_turns(claims, *found, *before)) return false;
  // They start with the next decision, when others of the tenant can be charged as borrowed for them.
  for (Taken& claim : *found) claim.now = false;
  put_in_place(claims, &*found, *before);
  return true;
}

// Checks the quotas after each claim in turn, as if its victims and those of the claims before it had gone.
bool ClaimService::quotas_hold_in_turns(const std::vector<Taken>& claims, const std::vector<Taken>& found,
                                        const SoFar& before) {
  QuotasInTurns quotas(this, claims, before);
  return std::all_of(found.begin(), found.end(), [&](const Taken& claim) {
    if (!quotas.leaves(claim.job, claim.type, claim.set.victims, true)) return false;
    quotas.serve(claim.job, claim.type, claim.set.victims);
    return true;
  });
}

}  // namespace dl::policy
