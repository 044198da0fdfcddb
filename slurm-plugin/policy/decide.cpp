// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/decide.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/own_tenant.h"
#include "slurm-plugin/policy/placement.h"

namespace dl::policy {
namespace {

// The state with the moves made.
ClusterState charged(const ClusterState& state, const std::vector<Move>& moves) {
  ClusterState next = state;
  for (const Move& move : moves) next.jobs[move.job].charge = move.to;
  return next;
}

bool takes_back_from(const Job& job) {
  return job.running && job.charge == Charge::kBorrowed && job.pausable && job.yields_to == kNobody;
}

class Decider {
 public:
  // `state`: with its running jobs charged anew; `so_far`: as they are charged until now.
  Decider(const ClusterState& state, const ClusterState& so_far)
      : state_(state),
        free_(state),
        ledger_(state),
        own_tenant_(state, so_far),
        later_(state.nodes.size()),
        learners_(state.jobs.size()),
        left_(state.jobs.size()),
        asked_(state.jobs.size()),
        budget_(state.search_budget) {
    for (size_t i = 0; i < state.jobs.size(); ++i) {
      const Job& job = state.jobs[i];
      if (!job.running) {
        queue_.push_back(static_cast<int>(i));
        continue;
      }
      learners_[i] = job.learners();
      left_[i] = job.yields_to == kNobody ? learners_[i] : job.yields_until_learners;
      if (takes_back_from(job)) (old_enough(job) ? takeable_ : protected_).push_back(static_cast<int>(i));
    }
    const auto older = [&](int a, int b) {
      const Job& x = state.jobs[a];
      const Job& y = state.jobs[b];
      return x.submit_s != y.submit_s ? x.submit_s < y.submit_s : x.id < y.id;
    };
    // Who observes a cluster mostly has them in this order already, and there may be ten thousand.
    if (!std::is_sorted(queue_.begin(), queue_.end(), older)) std::sort(queue_.begin(), queue_.end(), older);
    leave_to_all();
  }

  void claims() {
    std::vector<char> head_waits(state_.tenants.size());
    std::vector<char> done(state_.jobs.size());
    const auto try_claim = [&](int index) {
      const Job& job = state_.jobs[index];
      if (head_waits[job.tenant]) return;
      done[index] = claim(index) ? 1 : 0;
      // A job that has waited too long for its tenant's quota is not passed by the tenant's smaller ones any more.
      if (!done[index] && impatient(job) && could_be_own(state_, job)) head_waits[job.tenant] = 1;
    };
    // First those for which somebody has been asked to give way, so that they get what they were promised.
    std::set<int64_t> promised;
    for (const Job& job : state_.jobs)
      if (job.yields_to != kNobody) promised.insert(job.yields_to);
    const std::vector<int> order = order_of_claims(state_, queue_);
    for (const bool first : {true, false})
      for (const int index : order)
        if ((promised.count(state_.jobs[index].id) != 0) == first) try_claim(index);
    queue_.erase(std::remove_if(queue_.begin(), queue_.end(), [&](int index) { return done[index] != 0; }),
                 queue_.end());
  }

  // Jobs that are charged as borrowed from now on for a guaranteed job of their tenant, and those that are not moved
  // into the quota since it waits for that.
  struct Displaced {
    std::vector<int> now;
    std::vector<int> kept_out;
  };
  const Displaced& displaced() const { return displaced_; }

  void lend() {
    std::vector<std::vector<int>> of_tenant(state_.tenants.size());
    for (const int index : queue_) {
      const Job& job = state_.jobs[index];
      if (job.tier == Tier::kGuaranteed) {
        quota_full(index);
      } else {
        of_tenant[job.tenant].push_back(index);
      }
    }
    std::vector<size_t> next(state_.tenants.size());
    std::vector<double> key(state_.tenants.size());
    std::vector<int> active;
    for (size_t i = 0; i < of_tenant.size(); ++i) {
      if (of_tenant[i].empty()) continue;
      active.push_back(static_cast<int>(i));
      key[i] = fair_key(state_, ledger_, static_cast<int>(i));
    }
    const auto before = [&](int a, int b) {
      const int head_a = of_tenant[a][next[a]];
      const int head_b = of_tenant[b][next[b]];
      const bool in_group_a = asked(head_a) <= ledger_.idle_in_group(a);
      const bool in_group_b = asked(head_b) <= ledger_.idle_in_group(b);
      if (in_group_a != in_group_b) return in_group_a;
      if (key[a] != key[b]) return key[a] < key[b];
      const Job& x = state_.jobs[head_a];
      const Job& y = state_.jobs[head_b];
      return x.submit_s != y.submit_s ? x.submit_s < y.submit_s : x.id < y.id;
    };
    while (!active.empty()) {
      const auto best = std::min_element(active.begin(), active.end(), before);
      const int tenant = *best;
      if (borrow(of_tenant[tenant][next[tenant]])) key[tenant] = fair_key(state_, ledger_, tenant);
      if (++next[tenant] == of_tenant[tenant].size()) active.erase(best);
    }
  }

  Decision take() {
    // By job: each waits once.
    std::vector<int> where(state_.jobs.size(), -1);
    for (size_t i = 0; i < decision_.waiting.size(); ++i) where[decision_.waiting[i].job] = static_cast<int>(i);
    std::vector<Waiting> by_job;
    by_job.reserve(decision_.waiting.size());
    for (const int i : where) {
      if (i >= 0) by_job.push_back(decision_.waiting[i]);
    }
    decision_.waiting = std::move(by_job);
    return std::move(decision_);
  }

 private:
  // Jobs that were asked to yield to a claimant that is not there any more: what they leave is for the next claim.
  void leave_to_all() {
    for (const Job& job : state_.jobs) {
      if (!job.running || job.yields_to == kNobody) continue;
      const bool wanted =
          std::any_of(queue_.begin(), queue_.end(), [&](int index) { return state_.jobs[index].id == job.yields_to; });
      if (wanted) continue;
      FreeGpus room = free_;
      give_up(job, job.yields_until_learners, &room);
      for (const Part& part : job.parts) later_[part.node] += room.on(part.node) - free_.on(part.node);
    }
  }

  int asked(int index) const { return state_.jobs[index].min_learners * state_.jobs[index].gpus_per_learner; }
  using When = OwnTenant::When;
  enum class From { kBorrowers, kOwnTenant };  // whom a claim takes back from

  bool is_guaranteed(int index) const { return state_.jobs[index].tier == Tier::kGuaranteed; }
  bool old_enough(const Job& job) const { return state_.now_s - job.start_s >= job.min_run_s; }
  bool impatient(const Job& job) const {
    return state_.patience_s > 0 && state_.now_s - job.submit_s >= state_.patience_s;
  }
  bool may_use(const Job& job, int type) const { return job.type == kAnyType || job.type == type; }

  // Learners of the job that `gpus` GPUs give, at most its maximum; 0 if fewer than its minimum.
  static int learners_for(const Job& job, int gpus) {
    const int learners = std::min(job.max_learners, gpus / job.gpus_per_learner);
    return learners >= job.min_learners ? learners : 0;
  }

  void start(int index, Charge charge, int type, std::vector<Part> parts) {
    const Job& job = state_.jobs[index];
    free_.take(parts, job.gpus_per_learner);
    int gpus = 0;
    for (const Part& part : parts) gpus += part.learners * job.gpus_per_learner;
    ledger_.add(job.tenant, type, gpus, charge);
    if (is_guaranteed(index)) own_tenant_.hold(When::kNow, job.tenant, type, gpus);
    decision_.starts.push_back(Start{index, charge, type, std::move(parts)});
  }

  Waiting& wait(int index, Reason reason) {
    Waiting waiting;
    waiting.job = index;
    waiting.reason = reason;
    waiting.asked = asked(index);
    decision_.waiting.push_back(waiting);
    return decision_.waiting.back();
  }

  // A job that may not borrow: its quota is used up, or there is no place for it.
  void quota_full(int index) {
    const Job& job = state_.jobs[index];
    for (int type = 0; type < state_.type_count(); ++type) {
      if (!may_use(job, type) || learners_for(job, ledger_.own_left(job.tenant, type)) == 0) continue;
      no_place(index);
      return;
    }
    Waiting& waiting = wait(index, Reason::kQuota);
    for (int type = 0; type < state_.type_count(); ++type) {
      if (may_use(job, type)) waiting.free = std::max(waiting.free, ledger_.own_left(job.tenant, type));
    }
    waiting.used = ledger_.own(job.tenant);
    waiting.limit = state_.tenants[job.tenant].quota.total();
  }

  // A pending job that fits its tenant's quota on some type. False: it does not, and may be lent to.
  bool claim(int index) {
    const Job& job = state_.jobs[index];
    bool fits = false;
    for (int type = 0; type < state_.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      const int most = learners_for(job, ledger_.own_left(job.tenant, type));
      if (most == 0) continue;
      fits = true;
      const int learners = std::min(most, free_.slots(type, job.gpus_per_learner));
      // What leaves for this claim is meant for it; it does not take another place meanwhile unless it finds one whole.
      if (learners < job.min_learners) continue;
      auto parts = place(job.placement, free_, type, job.gpus_per_learner, learners);
      if (!parts) continue;
      start(index, Charge::kOwn, type, std::move(*parts));
      return true;
    }
    if (fits && take_back(index, From::kBorrowers)) return true;
    const bool firm = is_guaranteed(index) && could_hold(job);
    if (firm && (start_beside_own_tenant(index) || take_back(index, From::kOwnTenant))) return true;
    if (!(fits || firm) || !is_awaited(job)) return false;
    wait(index, Reason::kVictimsLeaving).within_tenant = !fits;
    return true;
  }

  // Victims have been asked for it, and have not gone yet.
  bool is_awaited(const Job& job) const {
    return std::any_of(state_.jobs.begin(), state_.jobs.end(),
                       [&](const Job& other) { return other.running && other.yields_to == job.id; });
  }

  bool could_hold(const Job& job) const {
    const int gpus = job.min_learners * job.gpus_per_learner;
    for (int type = 0; type < state_.type_count(); ++type)
      if (may_use(job, type) && own_tenant_.could_hold(job.tenant, type, gpus)) return true;
    return false;
  }

  // Starts a guaranteed job on free GPUs that could be lent: jobs of its tenant are charged as borrowed instead.
  bool start_beside_own_tenant(int index) {
    const Job& job = state_.jobs[index];
    for (int type = 0; type < state_.type_count(); ++type) {
      if (!may_use(job, type) || !own_tenant_.could_hold(job.tenant, type, asked(index))) continue;
      if (free_.slots(type, job.gpus_per_learner) < job.min_learners) continue;
      const std::vector<int> now = own_tenant_.displaced(When::kNow, job.tenant, type, asked(index), learners_);
      std::vector<int> moved = own_tenant_.displaced(When::kLater, job.tenant, type, asked(index), learners_);
      for (const int other : own_tenant_.to_be_recharged(job.tenant)) moved.push_back(other);
      for (const int other : now)
        if (std::find(moved.begin(), moved.end(), other) == moved.end()) moved.push_back(other);
      if (!own_tenant_.all_borrowed_so_far(moved) &&
          !(ledger_.within_borrow_limit(job.tenant, own_tenant_.gpus_of(moved, learners_)) &&
            own_tenant_.lent_beside(ledger_, job, type, moved, left_)))
        continue;
      auto parts = place(job.placement, free_, type, job.gpus_per_learner, job.min_learners);
      if (!parts) continue;
      keep_out(moved);
      recharge(now);
      start(index, Charge::kOwn, type, std::move(*parts));
      return true;
    }
    return false;
  }

  void keep_out(const std::vector<int>& jobs) {
    own_tenant_.displace(When::kLater, jobs);
    displaced_.kept_out.insert(displaced_.kept_out.end(), jobs.begin(), jobs.end());
  }

  // Own so far, and borrowed from now on: whoever may take back borrowed GPUs may take these.
  void recharge(const std::vector<int>& jobs) {
    own_tenant_.displace(When::kNow, jobs);
    for (const int index : jobs) {
      const Job& job = state_.jobs[index];
      const int type = state_.type_held(job);
      ledger_.add(job.tenant, type, -job.gpus(), Charge::kOwn);
      ledger_.add(job.tenant, type, job.gpus(), Charge::kBorrowed);
      displaced_.now.push_back(index);
      if (!job.pausable || job.yields_to != kNobody || asked_[index]) continue;
      std::vector<int>& list = old_enough(job) ? takeable_ : protected_;
      list.insert(std::lower_bound(list.begin(), list.end(), index), index);
    }
    for (std::vector<int>& jobs_without_hope : hopeless_) jobs_without_hope.clear();
  }

  // The claim finds no free place: it takes back, or waits for those it may take from later. False if no set of victims
  // would help: then it may be lent to like anybody else, should a place turn up.
  bool take_back(int index, From from) {
    const Job& job = state_.jobs[index];
    FreeGpus room = free_;
    for (size_t node = 0; node < later_.size(); ++node) {
      if (later_[node] != 0) room.add(static_cast<int>(node), later_[node]);
    }
    bool leaving = false;
    for (const Job& other : state_.jobs) {
      if (!other.running || other.yields_to != job.id) continue;
      leaving = true;
      give_up(other, other.yields_until_learners, &room);
    }
    if (!leaving && known_hopeless(job, from)) return false;
    std::optional<Found> found = cheapest(index, room, from, false);
    if (found) {
      const std::vector<Part> parts = commit(index, *found, room, true);
      Waiting& waiting = wait(index, Reason::kVictimsLeaving);
      waiting.kept_for = true;
      waiting.free = free_.total(found->type);
      waiting.within_tenant = from == From::kOwnTenant;
      if (!found->set.victims.empty())
        decision_.reclaims.push_back(Reclaim{index, found->type, parts, std::move(found->set)});
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
      const Job& failed = state_.jobs[index];
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
    const Job& job = state_.jobs[index];
    if (from == From::kBorrowers) {
      return cheapest_of_types(job, [&](int type) -> std::optional<VictimSet> {
        if (learners_for(job, ledger_.own_left(job.tenant, type)) == 0) return std::nullopt;
        return find_victims(state_, room, type, job.gpus_per_learner, job.min_learners, borrowers, &budget_);
      });
    }
    std::vector<int> own;
    for (const int other : own_tenant_.may_yield(job.tenant))
      if (!asked_[other] && (also_protected || old_enough(state_.jobs[other]))) own.push_back(other);
    std::vector<int> both;
    std::set_union(borrowers.begin(), borrowers.end(), own.begin(), own.end(), std::back_inserter(both));
    const auto among = [&](const std::vector<int>& candidates, bool beside_borrowers) {
      return cheapest_of_types(job, [&](int type) -> std::optional<VictimSet> {
        if (!own_tenant_.could_hold(job.tenant, type, asked(index))) return std::nullopt;
        return find_allowed_victims(
            state_, room, type, job.gpus_per_learner, job.min_learners, candidates, own, &budget_,
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
    for (int type = 0; type < state_.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      auto set = search(type);
      if (set && (!best || less_loss(*set, best->set))) best = Found{type, std::move(*set)};
    }
    return best;
  }

  // With the victims gone, does the quota hold the guaranteed job, once those of its tenant that are left over are
  // charged as borrowed, if they may be?
  bool leave_quota(int index, int type, const std::vector<Victim>& victims, bool may_recharge) {
    const Job& job = state_.jobs[index];
    std::vector<int> left = left_;
    for (const Victim& victim : victims) left[victim.job] = victim.learners_left;
    const std::vector<int> moved = own_tenant_.displaced(When::kLater, job.tenant, type, asked(index), left);
    const std::vector<int> waiting = own_tenant_.to_be_recharged(job.tenant);
    if (moved.empty() && waiting.empty()) return true;
    if (!may_recharge) return false;
    if (own_tenant_.all_borrowed_so_far(moved) && own_tenant_.all_borrowed_so_far(waiting)) return true;
    const int limit = state_.tenants[job.tenant].borrow_limit;
    if (limit != kNoLimit) {
      int borrowed = own_tenant_.gpus_of(moved, left) + own_tenant_.gpus_of(waiting, left);
      for (size_t i = 0; i < state_.jobs.size(); ++i) {
        const Job& other = state_.jobs[i];
        if (!other.running || other.tenant != job.tenant) continue;
        if (other.charge == Charge::kBorrowed || own_tenant_.recharged(static_cast<int>(i)))
          borrowed += left[i] * other.gpus_per_learner;
      }
      if (borrowed > limit) return false;
    }
    return own_tenant_.lent_beside(ledger_, job, type, moved, left);
  }

  // The claim's place is decided. What is free of it now is kept; what only becomes free later comes first, and what is
  // left of that is for the next claim. The victims are no candidates of later claims; in the ledger they stay until
  // they have gone, so that their tenant does not borrow more than it may meanwhile. `room`: what is free now or will
  // be without the victims. Of what victims leave that are not asked yet, nothing is for others.
  std::vector<Part> commit(int index, const Found& found, FreeGpus room, bool leave_now) {
    const Job& job = state_.jobs[index];
    for (const Victim& victim : found.set.victims) {
      const Job& gone = state_.jobs[victim.job];
      give_up(gone, victim.learners_left, &room);
      asked_[victim.job] = 1;
      left_[victim.job] = victim.learners_left;
      takeable_.erase(std::remove(takeable_.begin(), takeable_.end(), victim.job), takeable_.end());
      protected_.erase(std::remove(protected_.begin(), protected_.end(), victim.job), protected_.end());
    }
    ledger_.add(job.tenant, found.type, asked(index), Charge::kOwn);
    if (is_guaranteed(index)) {
      keep_out(own_tenant_.displaced(When::kLater, job.tenant, found.type, asked(index), left_));
      own_tenant_.hold(When::kLater, job.tenant, found.type, asked(index));
    }
    const auto parts = place(job.placement, room, found.type, job.gpus_per_learner, job.min_learners);
    if (!parts) return {};  // cannot be: the victims were chosen so that it fits
    if (leave_now) {
      for (size_t node = 0; node < later_.size(); ++node)
        later_[node] = room.on(static_cast<int>(node)) - free_.on(static_cast<int>(node));
    }
    for (const Part& part : *parts) {
      const int wanted = part.learners * job.gpus_per_learner;
      const int later = std::min(wanted, room.on(part.node) - free_.on(part.node));
      later_[part.node] = std::max(0, later_[part.node] - later);
      free_.add(part.node, later - wanted);
    }
    return *parts;
  }

  bool wait_for_protected(int index, const FreeGpus& room, From from) {
    if (protected_.empty() && from == From::kBorrowers) return false;
    const std::optional<Found> found = cheapest(index, room, from, true);
    if (!found) return false;
    int64_t seconds = 0;
    for (const Victim& victim : found->set.victims) {
      const Job& other = state_.jobs[victim.job];
      seconds = std::max(seconds, other.start_s + other.min_run_s - state_.now_s);
    }
    commit(index, *found, room, false);
    Waiting& waiting = wait(index, Reason::kVictimsProtected);
    waiting.seconds = seconds;
    waiting.kept_for = true;
    waiting.within_tenant = from == From::kOwnTenant;
    waiting.free = free_.total(found->type);
    return true;
  }

  // Lends to the job if it fits. True if it started.
  bool borrow(int index) {
    const Job& job = state_.jobs[index];
    const int size = job.gpus_per_learner;
    const int promised = own_tenant_.gpus_of(own_tenant_.to_be_recharged(job.tenant), learners_);
    if (!ledger_.within_borrow_limit(job.tenant, asked(index) + promised)) {
      Waiting& waiting = wait(index, Reason::kBorrowLimit);
      waiting.used = ledger_.borrowed(job.tenant);
      waiting.limit = state_.tenants[job.tenant].borrow_limit;
      return false;
    }
    bool kept = false;
    int most_free = 0;
    for (int type = 0; type < state_.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      most_free = std::max(most_free, free_.total(type));
      int learners = std::min(job.max_learners, free_.slots(type, size));
      if (learners < job.min_learners) continue;
      while (learners >= job.min_learners && !(ledger_.within_borrow_limit(job.tenant, learners * size + promised) &&
                                               ledger_.lendable(type, learners * size)))
        --learners;
      if (learners < job.min_learners) {
        kept = true;
        continue;
      }
      auto parts = place(job.placement, free_, type, size, learners);
      if (!parts) continue;
      start(index, Charge::kBorrowed, type, std::move(*parts));
      return true;
    }
    if (kept) {
      wait(index, Reason::kKept).free = most_free;
    } else {
      no_place(index);
    }
    return false;
  }

  void no_place(int index) {
    const Job& job = state_.jobs[index];
    Waiting& waiting = wait(index, Reason::kNoPlace);
    for (int type = 0; type < state_.type_count(); ++type) {
      if (may_use(job, type)) waiting.free = std::max(waiting.free, free_.total(type));
    }
    if (impatient(job) && !keeping_) waiting.kept_for = keep_free(job);
  }

  // Keeps free GPUs for a job that has waited too long: on the nodes of the type where most of its learners fit
  // already.
  bool keep_free(const Job& job) {
    int best = kAnyType;
    int best_slots = -1;
    for (int type = 0; type < state_.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      int could = 0;
      for (const int node : free_.nodes_of(type)) {
        if (free_.node(node).usable) could += free_.node(node).gpus / job.gpus_per_learner;
      }
      const int slots = free_.slots(type, job.gpus_per_learner);
      if (could >= job.min_learners && slots > best_slots) {
        best_slots = slots;
        best = type;
      }
    }
    if (best == kAnyType) return false;
    keeping_ = true;
    // The nodes with most free GPUs that could hold its learners once they are empty.
    std::vector<int> nodes;
    for (const int node : free_.nodes_of(best)) {
      if (free_.node(node).usable && free_.node(node).gpus >= job.gpus_per_learner) nodes.push_back(node);
    }
    std::stable_sort(nodes.begin(), nodes.end(), [&](int a, int b) { return free_.on(a) > free_.on(b); });
    int left = job.min_learners;
    for (const int node : nodes) {
      if (left <= 0) break;
      const int here = std::min(left, free_.node(node).gpus / job.gpus_per_learner);
      free_.add(node, -std::min(free_.on(node), here * job.gpus_per_learner));
      left -= here;
    }
    return true;
  }

  const ClusterState& state_;
  FreeGpus free_;
  Ledger ledger_;
  OwnTenant own_tenant_;
  std::vector<int> queue_;        // pending, oldest first
  std::vector<int> takeable_;     // borrowers that may be asked to yield now
  std::vector<int> protected_;    // borrowers that may be later
  std::vector<int> hopeless_[2];  // claims that no set of victims could help, by whose they are
  // By node: GPUs that will be free when those that are leaving have gone, and that nobody claims yet.
  std::vector<int> later_;
  // By job that runs: its learners; those it will have when what was asked has been done; whether it was asked now.
  std::vector<int> learners_;
  std::vector<int> left_;
  std::vector<char> asked_;
  Displaced displaced_;
  int budget_;
  bool keeping_ = false;
  Decision decision_;
};

}  // namespace

Decision decide(const ClusterState& state) {
  std::vector<Move> moves = charge(state);
  ClusterState recharged;
  if (!moves.empty()) recharged = charged(state, moves);
  Decider decider(moves.empty() ? state : recharged, state);
  decider.claims();
  decider.lend();
  Decision decision = decider.take();
  const auto drop = [&](const std::vector<int>& jobs) {
    const auto among = [&](const Move& move) { return std::find(jobs.begin(), jobs.end(), move.job) != jobs.end(); };
    if (!jobs.empty()) moves.erase(std::remove_if(moves.begin(), moves.end(), among), moves.end());
  };
  // Where others leave the quota without a guaranteed job, what they make room for takes their place: else the tenant
  // might borrow more than it may.
  std::set<int> leave;
  for (const Move& move : moves)
    if (move.to == Charge::kBorrowed) leave.insert(state.jobs[move.job].tenant);
  std::vector<int> kept_out = decider.displaced().kept_out;
  kept_out.erase(std::remove_if(kept_out.begin(), kept_out.end(),
                                [&](int job) { return leave.count(state.jobs[job].tenant) != 0; }),
                 kept_out.end());
  drop(kept_out);
  drop(decider.displaced().now);
  for (const int job : decider.displaced().now)
    if (state.jobs[job].charge == Charge::kOwn) moves.push_back(Move{job, Charge::kBorrowed});
  std::sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.job < b.job; });
  decision.moves = std::move(moves);
  return decision;
}

}  // namespace dl::policy
