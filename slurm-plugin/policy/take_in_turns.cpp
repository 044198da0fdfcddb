// SPDX-License-Identifier: Apache-2.0
// Claims looked at together with those to which jobs of their own tenant yield (in_turns.h).
#include <algorithm>
#include <set>
#include <utility>

#include "slurm-plugin/policy/claim_service.h"

namespace dl::policy {

// The service's own quotas, without the claims while this lives.
class ClaimService::QuotasInTurns : public TurnQuotas {
 public:
  QuotasInTurns(ClaimService* service, const std::vector<Taken>& claims, const SoFar& before)
      : service_(*service), claims_(claims), noted_(service->round_.own_tenant.noted()) {
    for (size_t i = claims.size(); i-- > 0;) service_.release_quota(claims[i].job, claims[i].type, claims[i].displaced);
    for (const Taken& claim : claims)
      for (const Victim& victim : claim.set.victims) keep(victim.job, before.left[victim.job], &asked_);
  }
  ~QuotasInTurns() override {
    while (!turns_.empty()) undo();
    put_back(asked_);
    for (const Taken& claim : claims_) service_.count_quota(claim.job, claim.type, +1);
    service_.round_.own_tenant.restore(std::move(noted_));
  }

  bool fits(int job, int type) override {
    const Job& asks = service_.round_.state.jobs[job];
    return learners_for(asks, service_.round_.ledger.own_left(asks.tenant, type)) > 0;
  }
  bool could_hold(int job, int type) override {
    return service_.round_.own_tenant.could_hold(service_.round_.state.jobs[job].tenant, type,
                                                 service_.round_.asked(job));
  }
  bool leaves(int job, int type, const std::vector<Victim>& victims, bool may_recharge) override {
    return service_.leave_quota(job, type, Space::When::kLater, victims, may_recharge);
  }
  void serve(int job, int type, const std::vector<Victim>& victims) override {
    Turn turn{job, type, {}, {}};
    for (const Victim& victim : victims) keep(victim.job, victim.learners_left, &turn.asked);
    turn.displaced = service_.hold_quota(job, type);
    turns_.push_back(std::move(turn));
  }
  void undo() override {
    const Turn& turn = turns_.back();
    service_.release_quota(turn.job, turn.type, turn.displaced);
    put_back(turn.asked);
    turns_.pop_back();
  }

 private:
  using Had = std::vector<std::pair<int, int>>;  // jobs, and the learners that each had
  struct Turn {
    int job;
    int type;
    Had asked;
    std::vector<Leaving> displaced;
  };

  void keep(int job, int learners, Had* had) {
    int& left = service_.so_far_.left[job];
    if (had != nullptr) had->emplace_back(job, left);
    service_.round_.leave(job, left, learners);
    left = service_.left_asked_[job] = learners;
  }
  void put_back(const Had& had) {
    for (size_t i = had.size(); i-- > 0;) keep(had[i].first, had[i].second, nullptr);
  }

  ClaimService& service_;
  const std::vector<Taken>& claims_;
  std::vector<int> noted_;
  Had asked_;
  std::vector<Turn> turns_;
};

// True if other victims were found, at a lesser loss.
bool ClaimService::take_in_turns() {
  const auto within = [](const Taken& claim) { return claim.within; };
  if (taken_.size() > kMostInTurns || std::none_of(taken_.begin(), taken_.end(), within)) return false;
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
  return true;
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
