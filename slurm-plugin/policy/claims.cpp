// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/claims.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "slurm-plugin/policy/placement.h"

namespace dl::policy {
namespace {

bool takes_back_from(const Job& job) {
  return job.running && job.charge == Charge::kBorrowed && job.pausable && job.yields_to == kNobody;
}

class Claims {
 public:
  explicit Claims(Round* round)
      : round_(*round),
        later_(round->state.nodes.size()),
        left_(round->learners),
        asked_(round->state.jobs.size()),
        budget_(round->state.search_budget) {
    for (size_t i = 0; i < left_.size(); ++i) {
      const Job& job = round_.state.jobs[i];
      if (!job.running) continue;
      if (job.yields_to != kNobody) left_[i] = job.yields_until_learners;
      if (takes_back_from(job)) (round_.old_enough(job) ? takeable_ : protected_).push_back(static_cast<int>(i));
    }
    leave_to_all();
  }

  void serve() {
    std::vector<char> head_waits(round_.state.tenants.size());
    std::vector<char> done(round_.state.jobs.size());
    const auto try_claim = [&](int index) {
      const Job& job = round_.state.jobs[index];
      if (head_waits[job.tenant] || !round_.users.allows(job)) return;
      done[index] = claim(index) ? 1 : 0;
      // A job that has waited too long for its tenant's quota is not passed by the tenant's smaller ones any more.
      if (!done[index] && round_.impatient(job) && could_be_own(round_.state, job)) head_waits[job.tenant] = 1;
    };
    // First those for which somebody has been asked to give way, so that they get what they were promised: at their
    // smallest size, and larger where that is left once the last of them has its own.
    std::set<int64_t> promised;
    for (const Job& job : round_.state.jobs)
      if (job.yields_to != kNobody) promised.insert(job.yields_to);
    const std::vector<int> order = order_of_claims(round_.state, round_.queue);
    for (const bool first : {true, false}) {
      smallest_ = first;
      for (const int index : order)
        if ((promised.count(round_.state.jobs[index].id) != 0) == first) try_claim(index);
      for (const size_t start : cut_short_) grow(&round_.decision.starts[start]);
      cut_short_.clear();
    }
    round_.queue.erase(
        std::remove_if(round_.queue.begin(), round_.queue.end(), [&](int index) { return done[index] != 0; }),
        round_.queue.end());
  }

  const Displaced& displaced() const { return displaced_; }

 private:
  using When = OwnTenant::When;
  enum class From { kBorrowers, kOwnTenant };  // whom a claim takes back from

  // Jobs that were asked to yield to a claimant that is not there any more: what they leave is for the next claim.
  void leave_to_all() {
    for (const Job& job : round_.state.jobs) {
      if (!job.running || job.yields_to == kNobody) continue;
      const bool wanted = std::any_of(round_.queue.begin(), round_.queue.end(),
                                      [&](int index) { return round_.state.jobs[index].id == job.yields_to; });
      if (wanted) continue;
      FreeGpus room = round_.free;
      give_up(job, job.yields_until_learners, &room);
      for (const Part& part : job.parts) later_[part.node] += room.on(part.node) - round_.free.on(part.node);
    }
  }

  // A pending job that fits its tenant's quota on some type. False: it does not, and may be lent to.
  bool claim(int index) {
    const Job& job = round_.state.jobs[index];
    bool fits = false;
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      const int most = learners_for(job, round_.ledger.own_left(job.tenant, type));
      if (most == 0) continue;
      fits = true;
      const int possible =
          std::min({most, round_.users.most_learners(job), round_.free.slots(type, job.gpus_per_learner)});
      const int learners = smallest_ ? std::min(possible, job.min_learners) : possible;
      // What leaves for this claim is meant for it; it does not take another place meanwhile unless it finds one whole.
      if (learners < job.min_learners) continue;
      auto parts = place(job.placement, round_.free, type, job.gpus_per_learner, learners);
      if (!parts) continue;
      if (learners < possible) cut_short_.push_back(round_.decision.starts.size());
      round_.start(index, Charge::kOwn, type, std::move(*parts));
      return true;
    }
    if (fits && take_back(index, From::kBorrowers)) return true;
    const bool firm = round_.is_guaranteed(index) && could_hold(job);
    if (firm && (start_beside_own_tenant(index) || take_back(index, From::kOwnTenant))) return true;
    if (!(fits || firm) || !is_awaited(job)) return false;
    round_.wait(index, Reason::kVictimsLeaving).within_tenant = !fits;
    return true;
  }

  // An elastic claim that starts at its smallest size gets what nobody was promised.
  void grow(Start* start) {
    const Job& job = round_.state.jobs[start->job];
    FreeGpus free = round_.free;
    free.give(start->parts, job.gpus_per_learner);
    const int left = round_.ledger.own_left(job.tenant, start->type) / job.gpus_per_learner;
    const int learners = std::min({job.max_learners, job.min_learners + std::min(left, round_.users.room(job)),
                                   free.slots(start->type, job.gpus_per_learner)});
    if (learners <= job.min_learners) return;
    auto parts = place(job.placement, free, start->type, job.gpus_per_learner, learners);
    if (!parts) return;
    round_.replace(start, std::move(*parts));
  }

  // Victims have been asked for it, and have not gone yet.
  bool is_awaited(const Job& job) const {
    return std::any_of(round_.state.jobs.begin(), round_.state.jobs.end(),
                       [&](const Job& other) { return other.running && other.yields_to == job.id; });
  }

  bool could_hold(const Job& job) const {
    const int gpus = job.min_learners * job.gpus_per_learner;
    for (int type = 0; type < round_.state.type_count(); ++type)
      if (may_use(job, type) && round_.own_tenant.could_hold(job.tenant, type, gpus)) return true;
    return false;
  }

  // Starts a guaranteed job on free GPUs that could be lent: jobs of its tenant are charged as borrowed instead.
  bool start_beside_own_tenant(int index) {
    const Job& job = round_.state.jobs[index];
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type) || !round_.own_tenant.could_hold(job.tenant, type, round_.asked(index))) continue;
      if (round_.free.slots(type, job.gpus_per_learner) < job.min_learners) continue;
      const std::vector<int> now =
          round_.own_tenant.displaced(When::kNow, job.tenant, type, round_.asked(index), round_.learners);
      std::vector<int> moved =
          round_.own_tenant.displaced(When::kLater, job.tenant, type, round_.asked(index), round_.learners);
      for (const int other : round_.own_tenant.to_be_recharged(job.tenant)) moved.push_back(other);
      for (const int other : now)
        if (std::find(moved.begin(), moved.end(), other) == moved.end()) moved.push_back(other);
      if (!round_.own_tenant.all_borrowed_so_far(moved) &&
          !(round_.ledger.within_borrow_limit(job.tenant, round_.own_tenant.gpus_of(moved, round_.learners)) &&
            round_.own_tenant.lent_beside(round_.ledger, job, type, moved, left_)))
        continue;
      auto parts = place(job.placement, round_.free, type, job.gpus_per_learner, job.min_learners);
      if (!parts) continue;
      keep_out(moved);
      recharge(now);
      round_.start(index, Charge::kOwn, type, std::move(*parts));
      return true;
    }
    return false;
  }

  void keep_out(const std::vector<int>& jobs) {
    round_.own_tenant.displace(When::kLater, jobs);
    displaced_.kept_out.insert(displaced_.kept_out.end(), jobs.begin(), jobs.end());
  }

  // Own so far, and borrowed from now on: whoever may take back borrowed GPUs may take these.
  void recharge(const std::vector<int>& jobs) {
    round_.own_tenant.displace(When::kNow, jobs);
    for (const int index : jobs) {
      const Job& job = round_.state.jobs[index];
      const int type = round_.state.type_held(job);
      round_.ledger.add(job.tenant, type, -job.gpus(), Charge::kOwn);
      round_.ledger.add(job.tenant, type, job.gpus(), Charge::kBorrowed);
      displaced_.now.push_back(index);
      if (!job.pausable || job.yields_to != kNobody || asked_[index]) continue;
      std::vector<int>& list = round_.old_enough(job) ? takeable_ : protected_;
      list.insert(std::lower_bound(list.begin(), list.end(), index), index);
    }
    for (std::vector<int>& jobs_without_hope : hopeless_) jobs_without_hope.clear();
  }

  // The claim finds no free place: it takes back, or waits for those it may take from later. False if no set of victims
  // would help: then it may be lent to like anybody else, should a place turn up.
  bool take_back(int index, From from) {
    const Job& job = round_.state.jobs[index];
    FreeGpus room = round_.free;
    for (size_t node = 0; node < later_.size(); ++node) {
      if (later_[node] != 0) room.add(static_cast<int>(node), later_[node]);
    }
    bool leaving = false;
    for (const Job& other : round_.state.jobs) {
      if (!other.running || other.yields_to != job.id) continue;
      leaving = true;
      give_up(other, other.yields_until_learners, &room);
    }
    if (!leaving && known_hopeless(job, from)) return false;
    std::optional<Found> found = cheapest(index, room, from, false);
    if (found) {
      const std::vector<Part> parts = commit(index, *found, room, true);
      Waiting& waiting = round_.wait(index, Reason::kVictimsLeaving);
      waiting.kept_for = true;
      waiting.free = round_.free.total(found->type);
      waiting.within_tenant = from == From::kOwnTenant;
      if (!found->set.victims.empty())
        round_.decision.reclaims.push_back(Reclaim{index, found->type, parts, std::move(found->set)});
      return true;
    }
    if (wait_for_protected(index, room, from)) return true;
    if (!leaving) hopeless_[static_cast<size_t>(from)].push_back(index);
    return false;
  }

  // Free GPUs and borrowers only become fewer in one decision: what found no place is not tried again for a like job.
  bool known_hopeless(const Job& job, From from) const {
    const std::vector<int>& hopeless = hopeless_[static_cast<size_t>(from)];
    return std::any_of(hopeless.begin(), hopeless.end(), [&](int index) {
      const Job& failed = round_.state.jobs[index];
      return failed.tenant == job.tenant && failed.type == job.type &&
             failed.gpus_per_learner == job.gpus_per_learner && failed.min_learners <= job.min_learners;
    });
  }

  static void give_up(const Job& job, int learners_left, FreeGpus* room) {
    room->give(job.parts, job.gpus_per_learner);
    room->take(parts_after_shrink(job.parts, learners_left), job.gpus_per_learner);
  }

  struct Found {
    int type;
    VictimSet set;
  };

  std::optional<Found> cheapest(int index, const FreeGpus& room, From from, bool also_protected) {
    std::vector<int> borrowers = takeable_;
    if (also_protected) borrowers.insert(borrowers.end(), protected_.begin(), protected_.end());
    std::sort(borrowers.begin(), borrowers.end());
    const Job& job = round_.state.jobs[index];
    if (from == From::kBorrowers) {
      return cheapest_of_types(job, [&](int type) -> std::optional<VictimSet> {
        if (learners_for(job, round_.ledger.own_left(job.tenant, type)) == 0) return std::nullopt;
        return find_victims(round_.state, room, type, job.gpus_per_learner, job.min_learners, borrowers, &budget_);
      });
    }
    std::vector<int> own;
    for (const int other : round_.own_tenant.may_yield(job.tenant))
      if (!asked_[other] && (also_protected || round_.old_enough(round_.state.jobs[other]))) own.push_back(other);
    std::vector<int> both;
    std::set_union(borrowers.begin(), borrowers.end(), own.begin(), own.end(), std::back_inserter(both));
    const auto among = [&](const std::vector<int>& candidates, bool beside_borrowers) {
      return cheapest_of_types(job, [&](int type) -> std::optional<VictimSet> {
        if (!round_.own_tenant.could_hold(job.tenant, type, round_.asked(index))) return std::nullopt;
        return find_allowed_victims(
            round_.state, room, type, job.gpus_per_learner, job.min_learners, candidates, own, &budget_,
            [&](const auto& victims) { return leave_quota(index, type, victims, beside_borrowers); });
      });
    };
    // Others give way only as far as the tenant, with this job, stays within its quota.
    if (auto found = among(own, true)) return found;
    return among(both, false);
  }

  template <typename Search>
  std::optional<Found> cheapest_of_types(const Job& job, Search search) const {
    std::optional<Found> best;
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      auto set = search(type);
      if (set && (!best || less_loss(*set, best->set))) best = Found{type, std::move(*set)};
    }
    return best;
  }

  // With the victims gone, does the quota hold the guaranteed job, once those of its tenant that are left over are
  // charged as borrowed, if they may be?
  bool leave_quota(int index, int type, const std::vector<Victim>& victims, bool may_recharge) {
    const Job& job = round_.state.jobs[index];
    std::vector<int> left = left_;
    for (const Victim& victim : victims) left[victim.job] = victim.learners_left;
    const std::vector<int> moved =
        round_.own_tenant.displaced(When::kLater, job.tenant, type, round_.asked(index), left);
    const std::vector<int> waiting = round_.own_tenant.to_be_recharged(job.tenant);
    if (moved.empty() && waiting.empty()) return true;
    if (!may_recharge) return false;
    if (round_.own_tenant.all_borrowed_so_far(moved) && round_.own_tenant.all_borrowed_so_far(waiting)) return true;
    const int limit = round_.state.tenants[job.tenant].borrow_limit;
    if (limit != kNoLimit) {
      int borrowed = round_.own_tenant.gpus_of(moved, left) + round_.own_tenant.gpus_of(waiting, left);
      for (size_t i = 0; i < round_.state.jobs.size(); ++i) {
        const Job& other = round_.state.jobs[i];
        if (!other.running || other.tenant != job.tenant) continue;
        if (other.charge == Charge::kBorrowed || round_.own_tenant.recharged(static_cast<int>(i)))
          borrowed += left[i] * other.gpus_per_learner;
      }
      if (borrowed > limit) return false;
    }
    return round_.own_tenant.lent_beside(round_.ledger, job, type, moved, left);
  }

  // The claim's place is decided. What is free of it now is kept; what only becomes free later comes first, and what is
  // left of that is for the next claim. The victims are no candidates of later claims; in the ledger they stay until
  // they have gone, so that their tenant does not borrow more than it may meanwhile. `room`: what is free now or will
  // be without the victims. Of what victims leave that are not asked yet, nothing is for others.
  std::vector<Part> commit(int index, const Found& found, FreeGpus room, bool leave_now) {
    const Job& job = round_.state.jobs[index];
    for (const Victim& victim : found.set.victims) {
      const Job& gone = round_.state.jobs[victim.job];
      give_up(gone, victim.learners_left, &room);
      asked_[victim.job] = 1;
      left_[victim.job] = victim.learners_left;
      takeable_.erase(std::remove(takeable_.begin(), takeable_.end(), victim.job), takeable_.end());
      protected_.erase(std::remove(protected_.begin(), protected_.end(), victim.job), protected_.end());
    }
    round_.ledger.add(job.tenant, found.type, round_.asked(index), Charge::kOwn);
    if (round_.is_guaranteed(index)) {
      keep_out(round_.own_tenant.displaced(When::kLater, job.tenant, found.type, round_.asked(index), left_));
      round_.own_tenant.hold(When::kLater, job.tenant, found.type, round_.asked(index));
    }
    const auto parts = place(job.placement, room, found.type, job.gpus_per_learner, job.min_learners);
    if (!parts) return {};  // cannot be: the victims were chosen so that it fits
    if (leave_now) {
      for (size_t node = 0; node < later_.size(); ++node)
        later_[node] = room.on(static_cast<int>(node)) - round_.free.on(static_cast<int>(node));
    }
    for (const Part& part : *parts) {
      const int wanted = part.learners * job.gpus_per_learner;
      const int later = std::min(wanted, room.on(part.node) - round_.free.on(part.node));
      later_[part.node] = std::max(0, later_[part.node] - later);
      round_.free.add(part.node, later - wanted);
    }
    return *parts;
  }

  bool wait_for_protected(int index, const FreeGpus& room, From from) {
    if (protected_.empty() && from == From::kBorrowers) return false;
    const std::optional<Found> found = cheapest(index, room, from, true);
    if (!found) return false;
    int64_t seconds = 0;
    for (const Victim& victim : found->set.victims) {
      const Job& other = round_.state.jobs[victim.job];
      seconds = std::max(seconds, other.start_s + other.min_run_s - round_.state.now_s);
    }
    commit(index, *found, room, false);
    Waiting& waiting = round_.wait(index, Reason::kVictimsProtected);
    waiting.seconds = seconds;
    waiting.kept_for = true;
    waiting.within_tenant = from == From::kOwnTenant;
    waiting.free = round_.free.total(found->type);
    return true;
  }

  Round& round_;
  std::vector<int> takeable_;     // borrowers that may be asked to yield now
  std::vector<int> protected_;    // borrowers that may be later
  std::vector<int> hopeless_[2];  // claims that no set of victims could help, by whose they are
  // By node: GPUs that will be free when those that are leaving have gone, and that nobody claims yet.
  std::vector<int> later_;
  std::vector<int> left_;    // by job that runs: learners that it will have when what was asked has been done
  std::vector<char> asked_;  // by job that runs: whether it was asked now
  Displaced displaced_;
  bool smallest_ = false;          // the promised claims are served: elastic ones start at their smallest size
  std::vector<size_t> cut_short_;  // those of the decision's starts, to grow once all of these are served
  int budget_;
};

}  // namespace

Displaced serve_claims(Round* round) {
  Claims claims(round);
  claims.serve();
  return claims.displaced();
}

}  // namespace dl::policy
