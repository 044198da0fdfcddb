// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/balance.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {
namespace {

struct Deal {
  int type = 0;
  int own = 0;  // of the newcomer's GPUs, within its quota
  std::vector<Part> parts;
  VictimSet set;
};

class Balancer {
 public:
  Balancer(Round* round, std::optional<Reservation>* reserved)
      : round_(*round), reserved_(*reserved), so_far_{round->learners, {}}, budget_(round->state.search_budget) {
    const ClusterState& state = round_.state;
    so_far_.own.resize(state.jobs.size());
    asked_.resize(state.jobs.size());
    for (const Reclaim& reclaim : round_.decision.reclaims)
      for (const Victim& victim : reclaim.set.victims) asked_[victim.job] = 1;
    of_tenant_.resize(state.tenants.size());
    for (size_t i = 0; i < state.jobs.size(); ++i) {
      const Job& job = state.jobs[i];
      if (!job.running) continue;
      so_far_.own[i] = job.own_of(job.gpus());
      // A job that was just moved out of the quota, or out of another job's way, may still get room in its tenant's
      // quota.
      if (job.charge == Charge::kBorrowed && job.pausable && job.saves && job.yields_to == kNobody &&
          round_.old_enough(job) && asked_[i] == 0)
        of_tenant_[job.tenant].push_back(static_cast<int>(i));
    }
  }

  void balance() {
    // The tenant with the least share first; of each the job whose turn it would be.
    std::vector<int> where(round_.state.jobs.size(), -1);
    for (size_t i = 0; i < round_.decision.waiting.size(); ++i)
      where[round_.decision.waiting[i].job] = static_cast<int>(i);
    std::vector<char> tried(round_.state.tenants.size());
    for (const Waiting& waiting : round_.decision.waiting)
      if (waiting.lent) tried[round_.state.jobs[waiting.job].tenant] = 1;
    std::vector<std::tuple<double, int, int>> askers;
    for (const int index : round_.queue) {
      const Job& job = round_.state.jobs[index];
      if (where[index] < 0 || tried[job.tenant] != 0 || job.tier == Tier::kGuaranteed) continue;
      tried[job.tenant] = 1;
      const Waiting& waiting = round_.decision.waiting[where[index]];
      if (waiting.reason != Reason::kNoPlace || waiting.kept_for || waiting.reserved_for >= 0) continue;
      if (round_.state.tenants[job.tenant].weight <= 0 || !round_.users.allows(job)) continue;
      askers.emplace_back(share(job.tenant, 0, 0), static_cast<int>(askers.size()), index);
    }
    std::sort(askers.begin(), askers.end());
    for (const auto& asker : askers) serve(std::get<2>(asker), where[std::get<2>(asker)]);
  }

 private:
  // Of what it would borrow beside so many GPUs more.
  double share(int tenant, int type, int more) const {
    const double weight = round_.state.tenants[tenant].weight;
    const double gpus = round_.after.borrowed_weighted(tenant) + more * round_.state.weight_of_type(type);
    if (weight > 0) return gpus / weight;
    return gpus > 0 ? std::numeric_limits<double>::infinity() : 0;
  }

  void serve(int index, int where) {
    const Job& job = round_.state.jobs[index];
    std::vector<std::pair<double, int>> others;
    for (size_t i = 0; i < of_tenant_.size(); ++i)
      if (static_cast<int>(i) != job.tenant && !of_tenant_[i].empty())
        others.emplace_back(-share(static_cast<int>(i), 0, 0), static_cast<int>(i));
    std::sort(others.begin(), others.end());
    for (const auto& other : others) {
      for (int type = 0; type < round_.state.type_count(); ++type) {
        if (!may_use(job, type)) continue;
        auto deal = deal_with(index, other.second, type);
        if (!deal) continue;
        carry_out(index, where, std::move(*deal));
        return;
      }
    }
  }

  std::optional<Deal> deal_with(int index, int victim_tenant, int type) {
    const Job& job = round_.state.jobs[index];
    const int asked = round_.asked(index);
    Deal deal;
    deal.type = type;
    deal.own = part_within_quota(round_, job, type, asked);
    const double after = share(job.tenant, type, asked - deal.own);
    // Those that are too large to go for it would spoil the search.
    std::vector<int> candidates;
    for (const int other : of_tenant_[victim_tenant])
      if (asked_[other] == 0 && round_.state.type_held(round_.state.jobs[other]) == type &&
          least_given(other) <= asked && after <= share(victim_tenant, type, so_far_.own[other] - least_given(other)))
        candidates.push_back(other);
    if (candidates.empty()) return std::nullopt;
    auto set = find_victims(round_.state, round_.free, type, job.gpus_per_learner, job.min_learners, candidates,
                            &budget_, true, &so_far_);
    if (!set || set->victims.empty()) return std::nullopt;
    for (const Victim& victim : set->victims) leave(victim, +1);
    const bool fair = after <= share(victim_tenant, type, 0) && even(*set, asked, asked - deal.own);
    const bool allowed = fair && may_borrow_then(job, type, asked, deal.own);
    FreeGpus room = round_.free;
    for (const Victim& victim : set->victims) free_of(victim, &room);
    auto parts = allowed ? place(job.placement, room, type, job.gpus_per_learner, job.min_learners) : std::nullopt;
    if (parts && reserved_ &&
        !reserved_->admit_for(round_, set->victims, job.limit_s, type, *parts, job.gpus_per_learner))
      parts.reset();
    if (!parts) {
      for (const Victim& victim : set->victims) leave(victim, -1);
      return std::nullopt;
    }
    deal.parts = std::move(*parts);
    deal.set = std::move(*set);
    return deal;
  }

  // They give up no more GPUs than the newcomer gets, and where it gets no others, no less of what is borrowed.
  bool even(const VictimSet& set, int asked, int lent) const {
    int gives = 0;
    int borrowed = 0;
    for (const Victim& victim : set.victims) {
      const Job& job = round_.state.jobs[victim.job];
      const int had = round_.learners[victim.job] * job.gpus_per_learner;
      const int left = victim.learners_left * job.gpus_per_learner;
      gives += had - left;
      borrowed += (had - job.own_of(had)) - (left - job.own_of(left));
    }
    return gives < asked || (gives == asked && borrowed >= lent);
  }

  // Once the victims have gone.
  bool may_borrow_then(const Job& job, int type, int gpus, int own) {
    if (!within_borrow_limit(round_, job.tenant, gpus - own)) return false;
    round_.after.add(job.tenant, type, own, 0);
    const bool lent = round_.after.lendable(type, gpus - own);
    round_.after.add(job.tenant, type, -own, 0);
    return lent;
  }

  // The fewest GPUs that it can give up.
  int least_given(int other) const {
    const Job& job = round_.state.jobs[other];
    const int learners = round_.learners[other];
    return learners > job.min_learners ? job.gpus_per_learner : learners * job.gpus_per_learner;
  }

  void leave(const Victim& victim, int sign) {
    const int has = round_.learners[victim.job];
    round_.leave(victim.job, sign > 0 ? has : victim.learners_left, sign > 0 ? victim.learners_left : has);
  }

  void free_of(const Victim& victim, FreeGpus* room) const {
    const Job& job = round_.state.jobs[victim.job];
    room->give(job.parts, job.gpus_per_learner);
    room->take(parts_after_shrink(job.parts, victim.learners_left), job.gpus_per_learner);
  }

  void carry_out(int index, int where, Deal deal) {
    const Job& job = round_.state.jobs[index];
    const int asked = round_.asked(index);
    for (const Victim& victim : deal.set.victims) asked_[victim.job] = 1;
    round_.count(job.tenant, deal.type, deal.own, asked - deal.own);
    round_.users.hold(job, asked);
    for (const Part& part : deal.parts)
      round_.free.add(part.node, -std::min(round_.free.on(part.node), part.learners * job.gpus_per_learner));
    Waiting& waiting = round_.decision.waiting[where];
    waiting.reason = Reason::kVictimsLeaving;
    waiting.lent = true;
    waiting.kept_for = true;
    waiting.own = deal.own;
    waiting.parts = deal.parts;
    round_.decision.reclaims.push_back(Reclaim{index, deal.type, std::move(deal.parts), std::move(deal.set)});
  }

  Round& round_;
  std::optional<Reservation>& reserved_;
  SoFar so_far_;
  std::vector<char> asked_;                  // by job that runs: in this decision
  std::vector<std::vector<int>> of_tenant_;  // borrowers that may be asked
  int budget_;
};

}  // namespace

int part_within_quota(const Round& round, const Job& job, int type, int gpus) {
  if (job.tier != Tier::kAuto || round.head_waits[job.tenant] != 0) return 0;
  const int left = round.ledger.own_part(job.tenant, type, gpus);
  return left == gpus ? 0 : left;
}

bool within_borrow_limit(const Round& round, int tenant, int gpus) {
  if (round.state.tenants[tenant].borrow_limit == kNoLimit) return true;
  const int promised = round.own_tenant.gpus_of(round.own_tenant.to_be_recharged(tenant), round.learners);
  return round.ledger.within_borrow_limit(tenant, gpus + promised);
}

bool may_borrow(Round* round, const Job& job, int type, int gpus, int own) {
  if (!within_borrow_limit(*round, job.tenant, gpus - own)) return false;
  if (own > 0) round->ledger.add(job.tenant, type, own, Charge::kOwn);
  const bool lent = round->ledger.lendable(type, gpus - own);
  if (own > 0) round->ledger.add(job.tenant, type, -own, Charge::kOwn);
  return lent;
}

void keep_loans(Round* round) {
  if (round->nobody_promised) return;
  const ClusterState& state = round->state;
  std::vector<char> settled(state.jobs.size());
  std::set<int64_t> awaited;
  for (size_t i = state.first_running; i < state.jobs.size(); ++i)
    if (const Job& job = state.jobs[i]; job.running && job.yields_to != kNobody) awaited.insert(job.yields_to);
  for (const int index : round->queue) {
    const Job& job = state.jobs[index];
    if (!is_loan(job) || !round->users.allows(job)) continue;
    const int size = job.gpus_per_learner;
    const int asked = round->asked(index);
    for (int type = 0; type < state.type_count() && settled[index] == 0; ++type) {
      if (!may_use(job, type)) continue;
      const int own = part_within_quota(*round, job, type, asked);
      if (!may_borrow(round, job, type, asked, own)) continue;
      std::vector<Part> parts = job.promised_parts;
      const bool there = !parts.empty() && state.nodes[parts.front().node].type == type &&
                         std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
                           return state.nodes[part.node].usable && round->free.on(part.node) >= part.learners * size;
                         });
      if (!there) {
        auto others = place(job.placement, round->free, type, size, job.min_learners);
        if (!others) continue;
        parts = std::move(*others);
      }
      round->start(index, Charge::kBorrowed, type, std::move(parts), own);
      settled[index] = 1;
    }
    if (settled[index] != 0 || awaited.count(job.id) == 0) continue;
    settled[index] = 1;
    for (const Part& part : job.promised_parts)
      round->free.add(part.node, -std::min(round->free.on(part.node), part.learners * size));
    Waiting& waiting = round->wait(index, Reason::kVictimsLeaving);
    waiting.lent = true;
    waiting.kept_for = true;
    waiting.parts = job.promised_parts;
    if (!waiting.parts.empty()) round->count(job.tenant, state.nodes[waiting.parts.front().node].type, 0, asked);
  }
  // Decided on: they neither have a turn of lending nor get GPUs reserved.
  std::vector<int>& queue = round->queue;
  queue.erase(std::remove_if(queue.begin(), queue.end(), [&](int index) { return settled[index] != 0; }), queue.end());
}

void balance(Round* round, std::optional<Reservation> reserved) {
  if (round->state.balance) Balancer(round, &reserved).balance();
}

}  // namespace dl::policy
