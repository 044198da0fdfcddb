// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/next_borrowers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/free_gpus.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/tokens.h"
#include "slurm-plugin/policy/user_limits.h"

namespace dl::policy {
namespace {

constexpr size_t kMostNext = 4000;  // then as many messages would be needed for their ranks as for gates
constexpr size_t kMostKinds = 500;  // each job is compared with each kind
constexpr int64_t kStep = 64;       // between two ranks at first, so that others find room between them and behind them

// Jobs that fit in the same places.
struct Kind {
  int type, gpus_per_learner, learners;
  bool operator<(const Kind& other) const {
    return std::tuple(type, gpus_per_learner, learners) <
           std::tuple(other.type, other.gpus_per_learner, other.learners);
  }
};

// Whether `one` fits wherever `other` does.
bool fits_where(const Kind& one, const Kind& other) {
  return (one.type == kAnyType || one.type == other.type) && one.gpus_per_learner <= other.gpus_per_learner &&
         one.learners <= other.learners;
}

Kind kind_of(const Job& job) {
  return Kind{job.type, job.gpus_per_learner, job.min_learners};
}

// Its place among the tenants' turns, as lend.cpp has it.
struct Place {
  int depth = 0;
  double key = 0;
  int64_t submit_s = 0;
  int64_t id = 0;
  bool operator<(const Place& other) const {
    return std::tuple(-depth, key, submit_s, id) < std::tuple(-other.depth, other.key, other.submit_s, other.id);
  }
};

class Finder {
 public:
  Finder(const ClusterState& state, const Decision& decision, const std::vector<Keeper>& keepers,
         const std::vector<HeldBack>& now)
      : state_(state), decision_(decision), keepers_(keepers), now_(now), ledger_(state), room_(state.tenants.size()) {}

  NextBorrowers find() {
    find_kinds();
    if (kinds_.size() > kMostKinds) return {};
    find_coming_free();
    recharge();
    sort_into_kinds();
    NextBorrowers next;
    Queues found(state_.tenants.size());
    for (const auto& [kind, queues] : kinds_)
      for (const int index : first_of(queues, coming_free(kind.type))) {
        held_[kind] += asked(index);
        found[static_cast<size_t>(state_.jobs[index].tenant)].push_back(index);
      }
    next.behind = behind(found);
    if (count_spread(next.behind) <= kFewGates) return {};
    for (std::vector<int>& queue : found) in_order(&queue);
    room_.assign(room_.size(), kMostGpusInAll);
    next.jobs = first_of(found, kMostGpusInAll);
    if (next.jobs.size() > kMostNext) return {};
    std::vector<int64_t> ranks;
    for (const int index : next.jobs) ranks.push_back(now_[index].rank);
    next.ranks = falling_ranks(ranks, kNextRank);
    return next;
  }

 private:
  using Queues = std::vector<std::vector<int>>;  // by tenant: its jobs of one kind, in the order of their turns

  int asked(int index) const { return state_.jobs[index].min_learners * state_.jobs[index].gpus_per_learner; }

  void find_coming_free() {
    const FreeGpus free(state_);  // also what those that start now should take: Slurm may not start them all
    std::vector<int64_t> held(state_.types.size()), largest(state_.types.size());
    for (const Job& job : state_.jobs) {
      if (!job.running || job.parts.empty()) continue;
      const auto type = static_cast<size_t>(state_.type_held(job));
      const int64_t gpus = job.gpus();
      held[type] += gpus;
      largest[type] = std::max(largest[type], gpus);
    }
    for (size_t type = 0; type < held.size(); ++type) {
      const int64_t ends = std::max({int64_t{kLeastComingFree}, held[type] / 8, largest[type]});
      coming_free_.push_back(free.total(static_cast<int>(type)) + std::min(held[type], ends));
      most_gpus_ = held[type] > held[most_gpus_] ? type : most_gpus_;
    }
  }

  int64_t coming_free(int type) const {
    if (type == kAnyType) return std::accumulate(coming_free_.begin(), coming_free_.end(), int64_t{0});
    return coming_free_[static_cast<size_t>(type)];
  }

  // The ledger as it is once the decision has been carried out.
  void recharge() {
    for (const Move& move : decision_.moves) {
      Job job = state_.jobs[move.job];
      const int before = job.own_of(job.gpus());
      carry_out(move, &job);
      const int more = job.own_of(job.gpus()) - before;
      ledger_.add(job.tenant, state_.type_held(job), more, -more);
    }
    for (const Start& start : decision_.starts) {
      const int gpus = learners_of(start.parts) * state_.jobs[start.job].gpus_per_learner;
      const int own = start.charge == Charge::kOwn ? gpus : start.own_part;
      ledger_.add(state_.jobs[start.job].tenant, start.type, own, gpus - own);
    }
    // Claims come before borrowers, and then hold what their tenant does not lend any more.
    for (const Waiting& waiting : decision_.waiting) {
      const Job& job = state_.jobs[waiting.job];
      if (job.tier == Tier::kBorrow || (waiting.reason != Reason::kNoPlace && !waits_for_victims(waiting))) continue;
      const int type = ledger_type(job);
      if (ledger_.fits_own(job.tenant, type, waiting.asked)) ledger_.add(job.tenant, type, waiting.asked, Charge::kOwn);
    }
    std::vector<char> guaranteed(state_.tenants.size());
    for (const Job& job : state_.jobs)
      if (!job.running && job.tier == Tier::kGuaranteed) guaranteed[job.tenant] = 1;
    for (size_t i = 0; i < room_.size(); ++i) {
      const int limit = state_.tenants[i].borrow_limit;
      room_[i] = limit == kNoLimit ? int64_t{kMostGpusInAll} : limit - ledger_.borrowed(static_cast<int>(i));
      // Its own jobs may be charged as borrowed when the guaranteed one starts.
      if (limit != kNoLimit && guaranteed[i] != 0) room_[i] = 0;
    }
  }

  // Types of which GPUs that come free are not for whoever fits.
  std::set<int> kept_types() const {
    std::set<int> kept;
    const UserLimits users(state_);
    for (const Waiting& waiting : decision_.waiting)
      if ((waiting.kept_for || waits_for_victims(waiting)) && !comes_first(waiting, users))
        kept.insert(state_.jobs[waiting.job].type);
    return kept;
  }
  // Whether what comes free goes to this claim before any borrower, without another look: Slurm ranks it before them,
  // it fits wherever they do, and it has all that it needs to start (its tokens, its number of nodes, and no gate).
  bool comes_first(const Waiting& waiting, const UserLimits& users) const {
    const Job& job = state_.jobs[waiting.job];
    const bool ranked = waiting.reason == Reason::kVictimsLeaving ||
                        (waiting.reason == Reason::kVictimsProtected && now_[waiting.job].rank > kNextRank);
    const bool by_itself = !waiting.lent && !waiting.within_tenant && !job.elastic() && !is_element(job.id) &&
                           !users.concerns(job) && (job.placement != Placement::kSpread || job.min_learners == 1) &&
                           (job.type != kAnyType || state_.types.size() == 1);
    return ranked && by_itself && fits_where_all_do(kind_of(job));
  }
  static bool waits_for_victims(const Waiting& waiting) {
    return waiting.reason == Reason::kVictimsLeaving || waiting.reason == Reason::kVictimsProtected;
  }
  bool fits_where_all_do(const Kind& one) const {
    return std::all_of(kinds_.begin(), kinds_.end(), [&](const auto& kind) {
      const bool apart = one.type != kAnyType && kind.first.type != kAnyType && one.type != kind.first.type;
      return apart || fits_where(one, kind.first);
    });
  }

  void find_kinds() {
    for (size_t i = 0; i < state_.jobs.size() && kinds_.size() <= kMostKinds; ++i)
      if (keepers_[i] != Keeper::kNothing) kinds_.try_emplace(kind_of(state_.jobs[i]), state_.tenants.size());
  }

  void sort_into_kinds() {
    const bool all_lent = std::none_of(state_.tenants.begin(), state_.tenants.end(),
                                       [](const Tenant& tenant) { return tenant.lend.has_value(); });
    const std::set<int> kept = kept_types();
    const UserLimits users(state_);
    for (const Waiting& waiting : decision_.waiting) {
      const Job& job = state_.jobs[waiting.job];
      if (keepers_[waiting.job] == Keeper::kNothing || !all_lent || waiting.reason != Reason::kNoPlace ||
          waiting.reserved_for >= 0)
        continue;
      if (kept.count(kAnyType) != 0 || kept.count(job.type) != 0 || (job.type == kAnyType && !kept.empty())) continue;
      if (job.elastic() || is_element(job.id) || job.yields_to != kNobody || users.concerns(job)) continue;
      if (job.placement == Placement::kSpread && job.min_learners > 1) continue;
      // Slurm starts it only when own tokens are free, too.
      if (least_own_part(state_, job.tenant, job.tier, asked(waiting.job)) > 0) continue;
      kinds_[kind_of(job)][static_cast<size_t>(job.tenant)].push_back(waiting.job);
    }
    for (auto& [kind, queues] : kinds_)
      for (std::vector<int>& queue : queues) in_order(&queue);
  }
  void in_order(std::vector<int>* jobs) const {
    std::sort(jobs->begin(), jobs->end(), [&](int a, int b) {
      const Job& x = state_.jobs[a];
      const Job& y = state_.jobs[b];
      return std::tuple(x.nice, x.submit_s, x.id) < std::tuple(y.nice, y.submit_s, y.id);
    });
  }

  Place place_of(const Ledger& ledger, int index) const {
    const Job& job = state_.jobs[index];
    const int gpus = asked(index);
    const int lent = gpus - own_part(ledger, job, gpus);
    Place place;
    place.depth = ledger.depth_lent(job.tenant, gpus);
    place.key = fair_key(state_, ledger, job.tenant, lent * state_.weight_of_type(job.type) / 2);
    place.submit_s = job.submit_s;
    place.id = job.id;
    return place;
  }
  int ledger_type(const Job& job) const { return job.type == kAnyType ? static_cast<int>(most_gpus_) : job.type; }
  int own_part(const Ledger& ledger, const Job& job, int gpus) const {
    if (job.tier != Tier::kAuto) return 0;
    const int own = ledger.own_part(job.tenant, ledger_type(job), gpus);
    return own == gpus ? 0 : own;
  }

  // The first jobs in the policy's order that hold `gpus` GPUs together. Among jobs of several sizes it is the order in
  // which they start if all of them fit.
  std::vector<int> first_of(const Queues& queues, int64_t gpus) {
    std::vector<int> jobs;
    Ledger ledger = ledger_;
    std::vector<size_t> next(queues.size());
    std::vector<Place> places(queues.size());
    const auto look = [&](size_t tenant) {
      if (next[tenant] < queues[tenant].size()) places[tenant] = place_of(ledger, queues[tenant][next[tenant]]);
    };
    for (size_t i = 0; i < places.size(); ++i) look(i);
    while (gpus > 0) {
      int first = -1;
      for (size_t i = 0; i < places.size(); ++i) {
        if (next[i] >= queues[i].size() || room_[i] < asked(queues[i][next[i]])) continue;
        if (first < 0 || places[i] < places[static_cast<size_t>(first)]) first = static_cast<int>(i);
      }
      if (first < 0) break;
      const auto tenant = static_cast<size_t>(first);
      const int index = queues[tenant][next[tenant]++];
      jobs.push_back(index);
      const Job& job = state_.jobs[index];
      const int own = own_part(ledger, job, asked(index));
      ledger.add(job.tenant, ledger_type(job), own, asked(index) - own);
      room_[tenant] -= asked(index);
      gpus -= asked(index);
      // What a group has left to lend changes with each of its tenants.
      for (size_t i = 0; i < places.size(); ++i)
        if (i == tenant || !state_.groups.empty()) look(i);
    }
    return jobs;
  }

  std::vector<char> behind(const Queues& found) const {
    std::vector<char> behind(state_.jobs.size());
    for (size_t i = 0; i < behind.size(); ++i)
      behind[i] = keepers_[i] == Keeper::kGate && now_[i].rank == 0 && covered(kind_of(state_.jobs[i])) ? 1 : 0;
    for (const std::vector<int>& jobs : found)
      for (const int index : jobs) behind[static_cast<size_t>(index)] = 0;
    return behind;
  }
  bool covered(const Kind& kind) const {
    int64_t of_type = 0, all = 0;
    for (const auto& [other, gpus] : held_) {
      if (!fits_where(other, kind)) continue;
      all += gpus;
      of_type += other.type == kind.type ? gpus : 0;
    }
    return of_type >= coming_free(kind.type) || all >= coming_free(kAnyType);
  }
  int count_spread(const std::vector<char>& behind) const {
    int count = 0;
    for (size_t i = 0; i < behind.size(); ++i) count += behind[i] != 0 && !now_[i].gated ? 1 : 0;
    return count;
  }

  const ClusterState& state_;
  const Decision& decision_;
  const std::vector<Keeper>& keepers_;
  const std::vector<HeldBack>& now_;
  Ledger ledger_;
  std::vector<int64_t> room_;         // by tenant: GPUs that it may still borrow
  std::vector<int64_t> coming_free_;  // by type
  size_t most_gpus_ = 0;              // the type of which most are in use
  std::map<Kind, Queues> kinds_;
  std::map<Kind, int64_t> held_;  // GPUs of the next borrowers of each kind
};

// The longest falling row among the ranks, as indexes; ranks beyond 1 to `most` are in none.
std::vector<size_t> longest_falling(const std::vector<int64_t>& ranks, int64_t most) {
  std::vector<size_t> ends;  // by length - 1: the last of a row that ends as high as possible
  std::vector<size_t> before(ranks.size(), ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 1 || ranks[i] > most) continue;
    const auto at =
        std::lower_bound(ends.begin(), ends.end(), ranks[i], [&](size_t x, int64_t rank) { return ranks[x] > rank; });
    if (at != ends.begin()) before[i] = *(at - 1);
    if (at == ends.end()) {
      ends.push_back(i);
    } else {
      *at = i;
    }
  }
  std::vector<size_t> row;
  for (size_t i = ends.empty() ? ranks.size() : ends.back(); i < ranks.size(); i = before[i]) row.push_back(i);
  std::reverse(row.begin(), row.end());
  return row;
}

}  // namespace

std::vector<int64_t> falling_ranks(const std::vector<int64_t>& now, int64_t most) {
  const auto count = static_cast<int64_t>(now.size());
  std::vector<int64_t> ranks = now;
  std::vector<size_t> kept = longest_falling(now, most);
  kept.push_back(now.size());
  const int64_t step = std::max<int64_t>(1, std::min(kStep, most / (count + 1)));
  int64_t upper = most + 1;
  size_t at = 0;
  for (const size_t next : kept) {
    const int64_t lower = next < now.size() ? now[next] : 0;
    const auto between = static_cast<int64_t>(next - at);
    if (upper - lower <= between) {  // no room for them: all get new ones
      for (int64_t i = 0; i < count; ++i) ranks[static_cast<size_t>(i)] = most - i * step;
      return ranks;
    }
    const int64_t gap = next < now.size() ? (upper - lower) / (between + 1)
                                          : std::min(step, (upper - 1) / std::max<int64_t>(1, between));
    for (; at < next; ++at) ranks[at] = upper -= gap;
    upper = lower;
    ++at;
  }
  return ranks;
}

NextBorrowers next_borrowers(const ClusterState& state, const Decision& decision, const std::vector<Keeper>& keepers,
                             const std::vector<HeldBack>& now) {
  int gates = 0;
  for (size_t i = 0; i < keepers.size(); ++i) gates += keepers[i] == Keeper::kGate && !now[i].gated ? 1 : 0;
  if (gates <= kFewGates || state.types.empty()) return {};
  return Finder(state, decision, keepers, now).find();
}

}  // namespace dl::policy
