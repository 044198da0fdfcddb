// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/decide.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "slurm-plugin/policy/fair_share.h"
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
  explicit Decider(const ClusterState& state)
      : state_(state), free_(state), ledger_(state), later_(state.nodes.size()), budget_(state.search_budget) {
    for (size_t i = 0; i < state.jobs.size(); ++i) {
      const Job& job = state.jobs[i];
      if (!job.running) {
        queue_.push_back(static_cast<int>(i));
      } else if (takes_back_from(job)) {
        (state.now_s - job.start_s >= job.min_run_s ? takeable_ : protected_).push_back(static_cast<int>(i));
      }
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
    std::vector<int> left;
    std::vector<char> head_waits(state_.tenants.size());
    for (const int index : queue_) {
      const Job& job = state_.jobs[index];
      bool done = false;
      if (job.tier != Tier::kBorrow && !head_waits[job.tenant]) {
        done = claim(index);
        // A job that has waited too long for its tenant's quota is not passed by the tenant's smaller ones any more.
        if (!done && impatient(job) && could_be_own(state_, job)) head_waits[job.tenant] = 1;
      }
      if (!done) left.push_back(index);
    }
    queue_ = std::move(left);
  }

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
    return fits && take_back(index);
  }

  // The claim finds no free place: it takes back, or waits for those it may take from later. False if no set of
  // borrowers would help: then it may be lent to like anybody else, should a place turn up.
  bool take_back(int index) {
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
    std::optional<Found> found = cheapest(job, room, takeable_);
    if (found) {
      const std::vector<Part> parts = commit(index, *found, room, true);
      Waiting& waiting = wait(index, Reason::kVictimsLeaving);
      waiting.kept_for = true;
      waiting.free = free_.total(found->type);
      if (!found->set.victims.empty())
        decision_.reclaims.push_back(Reclaim{index, found->type, parts, std::move(found->set)});
      return true;
    }
    if (known_hopeless(job) && !leaving) return false;
    if (wait_for_protected(index, room)) return true;
    if (!leaving) {
      hopeless_.push_back(index);
      return false;
    }
    wait(index, Reason::kVictimsLeaving);
    return true;
  }

  // Free GPUs and borrowers only become fewer in one decision: what found no place is not tried again for a like job.
  bool known_hopeless(const Job& job) const {
    return std::any_of(hopeless_.begin(), hopeless_.end(), [&](int index) {
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

  std::optional<Found> cheapest(const Job& job, const FreeGpus& room, const std::vector<int>& candidates) {
    std::optional<Found> best;
    for (int type = 0; type < state_.type_count(); ++type) {
      if (!may_use(job, type) || learners_for(job, ledger_.own_left(job.tenant, type)) == 0) continue;
      auto set = find_victims(state_, room, type, job.gpus_per_learner, job.min_learners, candidates, &budget_);
      if (set && (!best || less_loss(*set, best->set))) best = Found{type, std::move(*set)};
    }
    return best;
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
      takeable_.erase(std::remove(takeable_.begin(), takeable_.end(), victim.job), takeable_.end());
      protected_.erase(std::remove(protected_.begin(), protected_.end(), victim.job), protected_.end());
    }
    ledger_.add(job.tenant, found.type, asked(index), Charge::kOwn);
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

  bool wait_for_protected(int index, const FreeGpus& room) {
    if (protected_.empty()) return false;
    const Job& job = state_.jobs[index];
    std::vector<int> all = takeable_;
    all.insert(all.end(), protected_.begin(), protected_.end());
    std::sort(all.begin(), all.end());
    const std::optional<Found> found = cheapest(job, room, all);
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
    waiting.free = free_.total(found->type);
    return true;
  }

  // Lends to the job if it fits. True if it started.
  bool borrow(int index) {
    const Job& job = state_.jobs[index];
    const int size = job.gpus_per_learner;
    if (!ledger_.within_borrow_limit(job.tenant, asked(index))) {
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
      while (learners >= job.min_learners && !(ledger_.within_borrow_limit(job.tenant, learners * size) &&
                                               ledger_.lendable(job.tenant, type, learners * size)))
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
  std::vector<int> queue_;      // pending, oldest first
  std::vector<int> takeable_;   // borrowers that may be asked to yield now
  std::vector<int> protected_;  // borrowers that may be later
  std::vector<int> hopeless_;   // claims that no set of borrowers could help
  // By node: GPUs that will be free when those that are leaving have gone, and that nobody claims yet.
  std::vector<int> later_;
  int budget_;
  bool keeping_ = false;
  Decision decision_;
};

}  // namespace

Decision decide(const ClusterState& state) {
  std::vector<Move> moves = charge(state);
  if (moves.empty()) {
    Decider decider(state);
    decider.claims();
    decider.lend();
    return decider.take();
  }
  const ClusterState next = charged(state, moves);
  Decider decider(next);
  decider.claims();
  decider.lend();
  Decision decision = decider.take();
  decision.moves = std::move(moves);
  return decision;
}

}  // namespace dl::policy
