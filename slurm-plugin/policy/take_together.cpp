// SPDX-License-Identifier: Apache-2.0
// Claims that take back in this decision, looked at together: all that take from borrowers (joint.h); on small clusters
// also beside those to which jobs of their own tenant yield (in_turns.h).
#include <algorithm>
#include <set>
#include <utility>

#include "slurm-plugin/policy/claim_service.h"

namespace dl::policy {

// The claims that take back from borrowers now, all of them together (joint.h). What other claims take stays as it is:
// a guaranteed one's from its own tenant, and what was promised before. True if one of them gets GPUs of another type:
// then others of its tenant may find theirs.
bool ClaimService::take_together(bool may_change_types) {
  // Victims that are planned for other claims, too, were chosen beside theirs.
  std::vector<char> stays(round_.state.types.size());
  for (const Taken& claim : taken_)
    for (const Victim& victim : claim.set.victims)
      if (!claim.within && planned_[victim.job] != 0) stays[claim.type] = 1;
  std::vector<Taken> claims;
  std::set<int> claimants;
  for (const Taken& claim : taken_) {
    if (claim.within || stays[claim.type] != 0) continue;
    claims.push_back(claim);
    claimants.insert(claim.job);
  }
  if (claims.empty()) return false;
  const SoFar before = before_all(claimants);
  bool several = false;
  for (Taken& claim : claims) {
    claim.types.clear();
    for (int type = 0; may_change_types && type < round_.state.type_count(); ++type)
      if (may_use(round_.state.jobs[claim.job], type) && stays[type] == 0) claim.types.push_back(type);
    several = several || claim.types.size() > 1;
  }
  if (several)
    if (const std::optional<bool> changed = take_together(claims, before)) return *changed;
  for (int type = 0; type < round_.state.type_count(); ++type) {
    std::vector<Taken> of_type;
    for (const Taken& claim : claims)
      if (claim.type == type) of_type.push_back(claim);
    for (Taken& claim : of_type) claim.types.clear();
    take_together(of_type, before);
  }
  return false;
}

// Whether one of them gets another type; nothing if they all stay as they are.
std::optional<bool> ClaimService::take_together(const std::vector<Taken>& claims, const SoFar& before) {
  if (!may_share(claims)) return std::nullopt;
  const bool one_type =
      std::all_of(claims.begin(), claims.end(), [&](const Taken& claim) { return claim.types.size() < 2; });
  std::vector<int> candidates;
  for (const int other : borrowers_.all(Space::When::kLater))
    if (!one_type || round_.state.type_held(round_.state.jobs[other]) == claims.front().type)
      candidates.push_back(other);
  const auto allowed = [&](const std::vector<Taken>& all, const std::vector<int>& types) {
    return quotas_hold(all, types);
  };
  JointSteps most;
  most.budget = round_.state.search_budget;
  const auto found = take_jointly(round_.state, space_, claims, candidates, before, most, allowed);
  if (!found) return std::nullopt;
  take_up_all(claims, before);
  bool changed = false;
  for (const Taken& claim : *found) {
    const auto was = std::find_if(claims.begin(), claims.end(), [&](const Taken& one) { return one.job == claim.job; });
    if (was->type == claim.type) continue;
    changed = true;
    count_quota(claim.job, was->type, -1);
    count_quota(claim.job, claim.type, +1);
  }
  const size_t starts = round_.decision.starts.size();
  for (const Taken& claim : *found) {
    for (const Victim& victim : claim.set.victims) ask(victim, Space::When::kLater);
    settle(claim);
  }
  tell(*found, starts);
  return changed;
}

// Several claims may share victims. One alone may do without its own where another's leave GPUs over.
bool ClaimService::may_share(const std::vector<Taken>& claims) const {
  if (claims.size() != 1) return !claims.empty();
  const Taken& one = claims.front();
  return !one.set.victims.empty() && std::any_of(taken_.begin(), taken_.end(), [&](const Taken& other) {
    return other.job != one.job && other.type == one.type && !other.set.victims.empty();
  });
}

// What was asked of jobs without these claims.
SoFar ClaimService::before_all(const std::set<int>& claimants) const {
  SoFar before = before_;
  for (const Reclaim& reclaim : round_.decision.reclaims)
    for (const Victim& victim : reclaim.set.victims)
      if (claimants.count(reclaim.claimant) == 0)
        before.left[victim.job] = std::min(before.left[victim.job], victim.learners_left);
  return before;
}

// Their victims keep what they have without any of them, and their places are kept no longer.
void ClaimService::take_up_all(const std::vector<Taken>& claims, const SoFar& before) {
  std::set<int> claimants;
  for (const Taken& claim : claims) {
    claimants.insert(claim.job);
    space_.release(claim.kept);
  }
  for (const Taken& claim : claims)
    for (const Victim& victim : claim.set.victims) take_up(victim.job, before.left[victim.job]);
  std::vector<Reclaim>& reclaims = round_.decision.reclaims;
  reclaims.erase(std::remove_if(reclaims.begin(), reclaims.end(),
                                [&](const Reclaim& reclaim) { return claimants.count(reclaim.claimant) != 0; }),
                 reclaims.end());
  taken_.erase(
      std::remove_if(taken_.begin(), taken_.end(), [&](const Taken& claim) { return claimants.count(claim.job) != 0; }),
      taken_.end());
}

// Its victims have been asked. It starts, or its place is kept.
void ClaimService::settle(const Taken& claim) {
  if (claim.now) {
    start_after_all(claim);
  } else {
    taken_.push_back(claim);
    taken_.back().kept = space_.keep(Space::When::kLater, claim.kept.parts, claim.kept.gpus_per_learner);
  }
  if (!claim.set.victims.empty())
    round_.decision.reclaims.push_back(Reclaim{claim.job, claim.type, claim.kept.parts, claim.set});
}

// Where the claims that still wait have their places. `first_start`: of decision.starts, the first of those that now
// start after all.
void ClaimService::tell(const std::vector<Taken>& claims, size_t first_start) {
  for (size_t i = first_start; i < round_.decision.starts.size(); ++i) grow(&round_.decision.starts[i]);
  for (Waiting& waiting : round_.decision.waiting) {
    const auto claim =
        std::find_if(claims.begin(), claims.end(), [&](const Taken& one) { return one.job == waiting.job; });
    if (claim == claims.end()) continue;
    waiting.parts = claim->kept.parts;
    waiting.free = round_.free.total(claim->type);
    waiting.within_tenant = claim->within;
  }
}

// Would quotas hold the claims if they had these types instead?
bool ClaimService::quotas_hold(const std::vector<Taken>& claims, const std::vector<int>& types) {
  const auto count = [&](size_t i, int type, int sign) {
    round_.ledger.add(round_.state.jobs[claims[i].job].tenant, type, sign * round_.asked(claims[i].job), Charge::kOwn);
  };
  for (size_t i = 0; i < claims.size(); ++i)
    if (types[i] != claims[i].type) count(i, claims[i].type, -1);
  bool hold = true;
  size_t counted = 0;
  for (; hold && counted < claims.size(); ++counted) {
    if (types[counted] == claims[counted].type) continue;
    const int job = claims[counted].job;
    hold = round_.ledger.fits_own(round_.state.jobs[job].tenant, types[counted], round_.asked(job));
    count(counted, types[counted], +1);
  }
  for (size_t i = 0; i < claims.size(); ++i) {
    if (types[i] == claims[i].type) continue;
    if (i < counted) count(i, types[i], -1);
    count(i, claims[i].type, +1);
  }
  return hold;
}

// It was to wait.
void ClaimService::start_after_all(const Taken& claim) {
  const Job& job = round_.state.jobs[claim.job];
  std::vector<Waiting>& waiting = round_.decision.waiting;
  waiting.erase(std::find_if(waiting.begin(), waiting.end(), [&](const Waiting& one) { return one.job == claim.job; }));
  --round_.waits;
  round_.users.hold(job, -round_.asked(claim.job));
  release_quota(claim.job, claim.type, claim.displaced);
  start(claim.job, claim.type, claim.kept.parts);
}

// It keeps what it has without any of the claims that are looked at together.
void ClaimService::take_up(int index, int keeps) {
  const Job& job = round_.state.jobs[index];
  space_.ended(parts_after_shrink(job.parts, so_far_.left[index]), job.gpus_per_learner);
  round_.leave(index, so_far_.left[index], keeps);
  so_far_.left[index] = left_asked_[index] = keeps;
  space_.started(parts_after_shrink(job.parts, so_far_.left[index]), job.gpus_per_learner);
}

}  // namespace dl::policy
