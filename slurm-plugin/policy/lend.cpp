// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/lend.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

#include "slurm-plugin/policy/balance.h"
#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/policy/reservation.h"

namespace dl::policy {
namespace {

class Lender {
 public:
  explicit Lender(Round* round) : round_(*round) {
    for (const Group& group : round->state.groups) groups_own_ = groups_own_ || group.quota.total() > 0;
    for (const Tenant& tenant : round->state.tenants) {
      int group = tenant.group;
      while (round->state.parent_of(group) >= 0) group = round->state.parent_of(group);
      outermost_.push_back(group);
      if (group < 0) continue;
      if (static_cast<size_t>(group) >= tenants_within_.size()) tenants_within_.resize(static_cast<size_t>(group) + 1);
      tenants_within_[static_cast<size_t>(group)].push_back(static_cast<int>(outermost_.size()) - 1);
    }
  }

  std::optional<Reservation> lend() {
    give();
    return std::move(reserved_);
  }

 private:
  void give() {
    keep_loans(&round_);
    settled_.resize(round_.state.jobs.size());
    serve_reservation();
    // Where no job fits, as is so whenever the cluster is full, the order of turns makes no difference.
    if (round_.tell != Tell::kAll && !round_.some_borrower_fits(settled_)) return;
    std::vector<Turn> turns(round_.state.tenants.size());
    std::vector<size_t> most(turns.size());
    for (const int index : round_.queue) ++most[round_.asks[index].tenant];
    for (size_t i = 0; i < turns.size(); ++i) {
      turns[i].jobs.reserve(most[i]);
      turns[i].kinds.reserve(most[i]);
    }
    for (const int index : round_.queue) {
      if (settled_[index] != 0) continue;
      const Asked& asked = round_.asks[index];
      if (asked.tier == Tier::kGuaranteed) {
        if (!beyond_user_limit(index)) quota_full(index);
      } else {
        turns[asked.tenant].jobs.push_back(index);
        turns[asked.tenant].kinds.push_back(add_to_kind(asked));
      }
    }
    const auto before = [&](int a, int b) {
      if (comes_before(turns[a].place, turns[b].place)) return true;
      return !comes_before(turns[b].place, turns[a].place) && a < b;
    };
    std::set<int, decltype(before)> active(before);
    for (size_t i = 0; i < turns.size(); ++i)
      if (look(static_cast<int>(i), &turns[i])) active.insert(static_cast<int>(i));
    while (!active.empty()) {
      if (!something_may_start()) {
        // Whose turn it is makes no difference any more.
        ++round_.waits;  // some of them
        if (round_.tell != Tell::kAll) break;
        for (const int tenant : active) let_wait(&turns[tenant]);
        break;
      }
      const int tenant = *active.begin();
      const int held = round_.ledger.own(tenant) + round_.ledger.borrowed(tenant);
      Turn& turn = turns[tenant];
      active.erase(active.begin());
      if (turn.next < turn.jobs.size()) {
        if (next_borrows(&turn)) turn.growing.push_back(round_.decision.starts.size() - 1);
      } else {
        grow(&turn);
      }
      if (look(tenant, &turn)) active.insert(tenant);
      const int outermost = outermost_[tenant];
      if (outermost < 0 || round_.ledger.own(tenant) + round_.ledger.borrowed(tenant) == held) continue;
      // What a group has left to lend within changes with each of them, and what it has left of its own quota.
      for (const int other : tenants_within_[static_cast<size_t>(outermost)]) {
        Turn& its = turns[other];
        if (other == tenant || !waits_for_turn(its)) continue;
        Place now = its.place;
        now.depth = round_.ledger.depth_lent(other, now.asked);
        if (groups_own_) now = place_of(other, its);
        if (now.depth == its.place.depth && now.key == its.place.key) continue;
        active.erase(other);
        its.place = now;
        active.insert(other);
      }
    }
    // Where somebody waits, no other place becomes free by that.
    if (reserved_ || round_.waits > 0) return;
    for (const size_t start : grown_) settle(&round_.decision.starts[start]);
  }

  // Among the tenants, by what it would be lent next.
  struct Place {
    double key = 0;
    int depth = 0;  // Ledger::depth_lent()
    int asked = 0;
    int64_t submit_s = 0;
    int64_t id = 0;
  };
  static bool comes_before(const Place& x, const Place& y) {
    if (x.depth != y.depth) return x.depth > y.depth;
    if (x.key != y.key) return x.key < y.key;
    return x.submit_s != y.submit_s ? x.submit_s < y.submit_s : x.id < y.id;
  }

  // What a tenant would be lent next: its oldest job at its smallest size; when all have had their turn, one learner
  // more for those of them that are elastic, in turn.
  struct Turn {
    std::vector<int> jobs;
    std::vector<int> kinds;  // of these
    size_t next = 0;
    std::vector<size_t> growing;  // in decision.starts
    size_t grows = 0;             // whose turn it is
    Place place;
  };
  // Jobs for which the same place would do: what was found out about one holds for all until something starts. There
  // may be thousands of each.
  struct Kind {
    int type, gpus_per_learner, min_learners;
    Placement placement;
    bool soon;  // they end by themselves before the reserved gang starts
    int left = 0;
    bool reserved = false;  // its place is needed for that gang
    bool full = false;      // there is no place for it, nor will there be: what is free only becomes less

    bool operator==(const Kind& other) const {
      return gpus_per_learner == other.gpus_per_learner && min_learners == other.min_learners && soon == other.soon &&
             type == other.type && placement == other.placement;
    }
  };

  int add_to_kind(const Asked& job) {
    const Kind kind{job.type, job.gpus_per_learner, job.min_learners, job.placement,
                    reserved_ && reserved_->ends_before(job.limit_s)};
    // Where the last one with this number was found.
    const int number = kind.gpus_per_learner * 7 + kind.min_learners * 3 + (kind.type + 1) * 29 + (kind.soon ? 64 : 0) +
                       (kind.placement == Placement::kPack ? 128 : 0);
    int& last = last_kind_[static_cast<size_t>(number) % last_kind_.size()];
    size_t at = static_cast<size_t>(last);
    if (at >= kinds_.size() || !(kinds_[at] == kind)) {
      at = 0;
      while (at < kinds_.size() && !(kinds_[at] == kind)) ++at;
      if (at == kinds_.size()) kinds_.push_back(kind);
      last = static_cast<int>(at);
    }
    ++kinds_[at].left;
    return static_cast<int>(at);
  }

  bool has_room(const Kind& kind) const {
    for (int type = 0; type < round_.state.type_count(); ++type)
      if ((kind.type == kAnyType || kind.type == type) &&
          round_.free.slots(type, kind.gpus_per_learner) >= kind.min_learners)
        return true;
    return false;
  }

  // Has one of those that are left a place?
  bool something_may_start() {
    if (growing_ > 0 || !changed_) return true;
    changed_ = false;
    return std::any_of(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
      for (int type = 0; kind.left > 0 && type < round_.state.type_count(); ++type)
        if ((kind.type == kAnyType || kind.type == type) && !(kind.reserved && reserved_->type() == type) &&
            round_.free.slots(type, kind.gpus_per_learner) >= kind.min_learners)
          return true;
      return false;
    });
  }

  // Of the tenant's next job. True: it started, and may grow.
  bool next_borrows(Turn* turn) {
    const int index = turn->jobs[turn->next];
    Kind& kind = kinds_[turn->kinds[turn->next]];
    ++turn->next;
    if (--kind.left == 0) changed_ = true;
    if (!borrow(index, &kind)) return false;
    something_started();
    const bool grows = round_.state.jobs[index].elastic();
    growing_ += grows ? 1 : 0;
    return grows;
  }

  void let_wait(Turn* turn) {
    for (; turn->next < turn->jobs.size(); ++turn->next) {
      const int index = turn->jobs[turn->next];
      const Job& job = round_.state.jobs[index];
      Kind& kind = kinds_[turn->kinds[turn->next]];
      const bool limited = round_.state.tenants[job.tenant].borrow_limit != kNoLimit || round_.users.concerns(job);
      if (!limited && !has_room(kind)) {
        no_place(index);
      } else {
        borrow(index, &kind);
      }
    }
  }

  void something_started() {
    for (Kind& kind : kinds_) kind.reserved = false;
    changed_ = true;
  }

  // False: nothing is left to give to the tenant. The key is the one in the middle of what it would be given: so sizes
  // of any kind come out nearest to the weights.
  bool look(int tenant, Turn* turn) {
    std::optional<Place> passed;
    if (round_.tell != Tell::kAll && tenants_within_.empty()) passed = pass_over(tenant, turn);
    const bool pending = turn->next < turn->jobs.size();
    if (!pending && turn->growing.empty()) return false;
    if (!pending) turn->grows %= turn->growing.size();
    turn->place = place_of(tenant, *turn);
    if (passed && comes_before(turn->place, *passed)) turn->place = *passed;
    return true;
  }

  // Skips the tenant's next jobs that have no place: hundreds may stand before one that has, and their turns would
  // change nothing. Returns the latest place in the order that one of them had: the job behind them gets its turn no
  // earlier.
  std::optional<Place> pass_over(int tenant, Turn* turn) {
    std::optional<Place> last;
    Place place;
    int kind_before = -1;
    Tier tier_before = Tier::kAuto;
    for (; turn->next < turn->jobs.size(); ++turn->next) {
      Kind& kind = kinds_[turn->kinds[turn->next]];
      kind.full = kind.full || !has_room(kind);
      if (!kind.full) break;
      const Asked& job = round_.asks[turn->jobs[turn->next]];
      if (turn->kinds[turn->next] != kind_before || job.tier != tier_before) place = place_of(tenant, *turn);
      kind_before = turn->kinds[turn->next];
      tier_before = job.tier;
      place.submit_s = job.submit_s;
      place.id = job.id;
      if (!last || comes_before(*last, place)) last = place;
      ++round_.waits;
      if (--kind.left == 0) changed_ = true;
    }
    return last;
  }

  static bool waits_for_turn(const Turn& turn) { return turn.next < turn.jobs.size() || !turn.growing.empty(); }

  Place place_of(int tenant, const Turn& turn) const {
    const bool pending = turn.next < turn.jobs.size();
    const int index = pending ? turn.jobs[turn.next] : round_.decision.starts[turn.growing[turn.grows]].job;
    const Job& job = round_.state.jobs[index];
    const int asked = pending ? round_.asked(index) : job.gpus_per_learner;
    const int lent = asked - (pending ? most_own_part(job, asked) : 0);
    Place place;
    place.key = fair_key(round_.state, round_.ledger, tenant, lent * round_.state.weight_of_type(job.type) / 2);
    place.depth = round_.ledger.depth_lent(tenant, asked);
    place.asked = asked;
    place.submit_s = job.submit_s;
    place.id = job.id;
    return place;
  }

  void grow(Turn* turn) {
    const size_t which = turn->growing[turn->grows];
    if (grow_by_one(&round_.decision.starts[which])) {
      something_started();
      ++turn->grows;
      if (grown_.empty() || std::find(grown_.begin(), grown_.end(), which) == grown_.end()) grown_.push_back(which);
    } else {
      --growing_;
      turn->growing.erase(turn->growing.begin() + static_cast<std::ptrdiff_t>(turn->grows));
    }
  }

  bool grow_by_one(Start* start) {
    const Job& job = round_.state.jobs[start->job];
    const int size = job.gpus_per_learner;
    const int learners = learners_of(start->parts) + 1;
    if (learners > job.max_learners || round_.users.room(job) < 1 || !may_borrow(&round_, job, start->type, size, 0))
      return false;
    const int node = node_for_one(*start, size);
    if (node < 0) return false;
    std::vector<Part> parts = start->parts;
    const auto at = std::lower_bound(parts.begin(), parts.end(), node,
                                     [](const Part& part, int wanted) { return part.node < wanted; });
    if (at != parts.end() && at->node == node) {
      ++at->learners;
    } else {
      parts.insert(at, Part{node, 1});
    }
    if (reserved_ && !reserved_->admit(job.limit_s, start->type, {Part{node, 1}}, size)) return false;
    round_.replace(start, std::move(parts));
    return true;
  }

  // A node that the job is on already; else the one that it fills best.
  int node_for_one(const Start& start, int size) const {
    for (const Part& part : start.parts)
      if (round_.free.on(part.node) >= size) return part.node;
    if (round_.free.slots(start.type, size) == 0) return -1;
    int best = -1;
    for (const int node : round_.free.nodes_of(start.type))
      if (round_.free.on(node) >= size && (best < 0 || round_.free.on(node) < round_.free.on(best))) best = node;
    return best;
  }

  // Grown learner by learner, the job lies where there was room; now as it would have been placed at once.
  void settle(Start* start) {
    const Job& job = round_.state.jobs[start->job];
    FreeGpus free = round_.free;
    free.give(start->parts, job.gpus_per_learner);
    auto parts = place(job.placement, free, start->type, job.gpus_per_learner, learners_of(start->parts));
    if (parts) round_.replace(start, std::move(*parts));
  }

  // Before the others have their turn.
  void serve_reservation() {
    reserved_ = Reservation::find(round_);
    if (!reserved_ || !reserved_->starts_now()) return;
    const int index = reserved_->job();
    reserved_.reset();
    if (round_.is_guaranteed(index)) return;
    if (settled_[index] != 0) return;
    settled_[index] = 1;
    borrow(index, nullptr);
  }

  int own_part(const Job& job, int type, int gpus) const { return part_within_quota(round_, job, type, gpus); }

  int most_own_part(const Job& job, int gpus) const {
    int most = 0;
    for (int type = 0; type < round_.state.type_count(); ++type)
      if (may_use(job, type)) most = std::max(most, own_part(job, type, gpus));
    return most;
  }

  bool within_limit(const Job& job, int gpus) const { return within_borrow_limit(round_, job.tenant, gpus); }

  // A job that may not borrow: its quota is used up, or there is no place for it.
  void quota_full(int index) {
    const Job& job = round_.state.jobs[index];
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type) || learners_for(job, round_.ledger.own_left(job.tenant, type)) == 0) continue;
      no_place(index);
      return;
    }
    Waiting& waiting = round_.wait(index, Reason::kQuota);
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (may_use(job, type)) waiting.free = std::max(waiting.free, round_.ledger.own_left(job.tenant, type));
    }
    waiting.used = round_.ledger.own(job.tenant);
    waiting.limit = round_.state.tenants[job.tenant].quota.total();
    for (const int group : groups_of(round_.state, job.tenant))
      if (const GpuCounts* quota = round_.state.quota_of(group)) waiting.limit += quota->total();
  }

  bool beyond_user_limit(int index) {
    const Job& job = round_.state.jobs[index];
    if (round_.users.allows(job)) return false;
    Waiting& waiting = round_.wait(index, Reason::kUserLimit);
    waiting.used = round_.users.held(job);
    waiting.limit = round_.users.limit(job);
    return true;
  }

  // Lends to the job if it fits. True if it started. `kind`: the job's, if there is one.
  bool borrow(int index, Kind* kind) {
    if (beyond_user_limit(index)) return false;
    const Job& job = round_.state.jobs[index];
    const int size = job.gpus_per_learner;
    const int asked = round_.asked(index);
    const int most_own = most_own_part(job, asked);
    if (!within_limit(job, asked - most_own)) {
      Waiting& waiting = round_.wait(index, Reason::kBorrowLimit);
      waiting.own = most_own;
      waiting.used = round_.ledger.borrowed(job.tenant);
      waiting.limit = round_.state.tenants[job.tenant].borrow_limit;
      return false;
    }
    bool kept = false, reserved = false;
    int most_free = 0;
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (!may_use(job, type)) continue;
      most_free = std::max(most_free, round_.free.total(type));
      if (round_.free.slots(type, size) < job.min_learners) continue;
      const int own = own_part(job, type, asked);
      if (!may_borrow(&round_, job, type, asked, own)) {
        kept = true;
        continue;
      }
      const bool asks_reserved = kind != nullptr && reserved_ && reserved_->type() == type;
      if (asks_reserved && kind->reserved) {
        reserved = true;
        continue;
      }
      auto parts = place(job.placement, round_.free, type, size, job.min_learners);
      if (!parts) continue;
      if (reserved_ && !reserved_->admit(job.limit_s, type, *parts, size)) {
        reserved = true;
        if (asks_reserved) {
          kind->reserved = true;
          changed_ = true;
        }
        continue;
      }
      round_.start(index, Charge::kBorrowed, type, std::move(*parts), own);
      return true;
    }
    if (reserved && reserved_->job() != index) {
      Waiting& waiting = round_.wait(index, Reason::kNoPlace);
      waiting.free = most_free;
      waiting.reserved_for = reserved_->job();
      waiting.reserved_s = reserved_->in_s();
    } else if (kept) {
      round_.wait(index, Reason::kKept).free = most_free;
    } else {
      no_place(index);
    }
    return false;
  }

  void no_place(int index) {
    const Job& job = round_.state.jobs[index];
    Waiting& waiting = round_.wait(index, Reason::kNoPlace);
    if (round_.tell != Tell::kAll) return;
    for (int type = 0; type < round_.state.type_count(); ++type) {
      if (may_use(job, type)) waiting.free = std::max(waiting.free, round_.free.total(type));
    }
    if (!reserved_ || reserved_->job() != index) return;
    waiting.kept_for = true;
    waiting.parts = reserved_->parts();
  }

  Round& round_;
  std::optional<Reservation> reserved_;
  std::vector<Kind> kinds_;
  std::array<int, 256> last_kind_{};
  bool changed_ = true;                           // since something_may_start() was asked
  int growing_ = 0;                               // elastic ones that started, and may get more
  std::vector<int> outermost_;                    // by tenant: the group around all groups that it lies in
  std::vector<std::vector<int>> tenants_within_;  // by such a group
  bool groups_own_ = false;                       // some quota
  std::vector<char> settled_;  // by job: decided on before its turn, since everything was kept for it
  std::vector<size_t> grown_;  // in decision.starts
};

}  // namespace

std::optional<Reservation> lend(Round* round) {
  return Lender(round).lend();
}

}  // namespace dl::policy
