// SPDX-License-Identifier: Apache-2.0
// The quotas of a decision while a search tries other victims for some of its claims. Only the files of claim_service.h
// include this.
#pragma once

#include <utility>
#include <vector>

#include "slurm-plugin/policy/claim_service.h"

namespace dl::policy {

// Changes the quotas of the service itself: from the constructor on they do not count the claims, and serve() and
// undo() change them. The destructor puts all back.
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

}  // namespace dl::policy
