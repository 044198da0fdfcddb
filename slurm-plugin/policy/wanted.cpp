// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/wanted.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/tokens.h"
#include "slurm-plugin/policy/user_limits.h"

namespace dl::policy {
namespace {

// dlrun keeps the deadline itself, to the second; Slurm's requeue comes when it has not.
constexpr int64_t kSlackS = 3;
// So many renewals of gates in a second, and each gate is renewed when half of its time is over.
constexpr int64_t kRenewalsPerS = 10;

bool is_promised(const Waiting& waiting) {
  return waiting.reason == Reason::kVictimsLeaving || waiting.reason == Reason::kVictimsProtected;
}

// A job that may become a claim waits for own tokens; one that can never be one waits behind the gate.
Charge charge_of_waiting(const ClusterState& state, const Job& job) {
  if (job.tier == Tier::kBorrow) return Charge::kBorrowed;
  return job.tier == Tier::kGuaranteed || could_be_own(state, job) ? Charge::kOwn : Charge::kBorrowed;
}

// 0: it gives own tokens back, or has none; 1: it is charged as own; 2: it is own in part.
int turn_to_hold(const Job& job, const Wanted& wants) {
  if (wants.charge == Charge::kOwn) return 1;
  return wants.own_part > 0 && wants.own_part >= job.own_of(job.gpus()) ? 2 : 0;
}

class Wishes {
 public:
  Wishes(const ClusterState& state, const Decision& decision, const std::vector<HeldBack>& now)
      : state_(state), decision_(decision), now_(now), wanted_(state.jobs.size()) {}

  std::vector<Wanted> wishes() {
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Job& job = state_.jobs[i];
      wanted_[i].charge = job.charge;
      if (job.running && job.charge == Charge::kBorrowed) wanted_[i].own_part = job.own_of(job.gpus());
    }
    for (const Move& move : decision_.moves) {
      wanted_[move.job].charge = move.to;
      wanted_[move.job].own_part = move.own_part;
    }
    for (const Reclaim& reclaim : decision_.reclaims)
      for (const Victim& victim : reclaim.set.victims) ask(victim, state_.jobs[reclaim.claimant].id);
    give_turns();
    find_claims();
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (!state_.jobs[i].running) charge_pending(static_cast<int>(i));
    limit_users();
    find_soon();
    if (!now_.empty()) open_next();
    set_gates();
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (!state_.jobs[i].running) rank(static_cast<int>(i));
    return std::move(wanted_);
  }

 private:
  // For several claims: it is the first one's victim, pauses once, and keeps what the last of them leaves it.
  void ask(const Victim& victim, int64_t claimant) {
    std::optional<YieldRequest>& asked = wanted_[victim.job].asked;
    if (!asked) asked = YieldRequest{claimant, 0, 0};
    asked->learners_left = victim.learners_left;
    asked->lost_gpu_s += victim.lost_gpu_s;
  }

  // Slurm chooses the nodes. While a claim's place is being made free, a borrower might be given just that; so none
  // starts on GPUs of its type.
  void give_turns() {
    std::set<int> kept_types;
    for (const Waiting& waiting : decision_.waiting)
      if (is_promised(waiting)) kept_types.insert(state_.jobs[waiting.job].type);
    const bool all_kept = kept_types.count(kAnyType) != 0;
    for (size_t i = 0; i < decision_.starts.size(); ++i) {
      const Start& start = decision_.starts[i];
      wanted_[start.job].start = static_cast<int>(i);
      wanted_[start.job].turn = start.charge == Charge::kOwn || !(all_kept || kept_types.count(start.type) != 0);
      const int64_t id = state_.jobs[start.job].id;
      if (is_element(id)) (start.charge == Charge::kOwn ? arrays_with_own_ : arrays_lent_to_).insert(array_of(id));
    }
  }

  // Who waits for victims, and how many claims do so or start, by the type that they ask for.
  void find_claims() {
    std::map<int, int> of_type;
    int all = 0;
    const auto note = [&](int index) {
      ++of_type[state_.jobs[index].type];
      ++all;
    };
    for (const Job& job : state_.jobs) promised_.insert(job.yields_to);
    for (const Waiting& waiting : decision_.waiting) {
      if (!is_promised(waiting)) continue;
      note(waiting.job);
      wanted_[waiting.job].waits_for_victims = true;
      wanted_[waiting.job].loan = waiting.lent;
      if (waiting.reason == Reason::kVictimsLeaving) promised_.insert(state_.jobs[waiting.job].id);
    }
    for (const Start& start : decision_.starts)
      if (start.charge == Charge::kOwn) note(start.job);
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Job& job = state_.jobs[i];
      if (!job.elastic() || !wanted_[i].waits_for_victims) continue;
      wanted_[i].smallest = (job.type == kAnyType ? all : of_type[job.type] + of_type[kAnyType]) > 1;
    }
  }

  void charge_pending(int index) {
    Wanted& its = wanted_[index];
    its.charge = its.turn   ? decision_.starts[its.start].charge
                 : its.loan ? Charge::kBorrowed
                            : charge_of_waiting(state_, state_.jobs[index]);
    const Job& job = state_.jobs[index];
    if (its.turn) {
      its.own_part = decision_.starts[its.start].own_part;
    } else if (its.charge == Charge::kBorrowed) {
      its.own_part = least_own_part(state_, job.tenant, job.tier, job.min_learners * job.gpus_per_learner);
    }
    its.open = its.turn || its.charge == Charge::kOwn;
  }

  // Own jobs wait for tokens, and slurmctld starts them as those come free, without asking here: of one user's, only so
  // many are left without a gate as he may hold together. Of a job array all elements wait whose turn it is not: they
  // have one begin time.
  void limit_users() {
    UserLimits open(state_);
    for (const Start& start : decision_.starts) open.hold(state_.jobs[start.job], gpus_of(state_, start));
    for (const bool promised : {true, false}) {
      for (const Waiting& waiting : decision_.waiting) {
        const Job& job = state_.jobs[waiting.job];
        Wanted& its = wanted_[waiting.job];
        if (is_promised(waiting) != promised || !open.concerns(job) || its.charge != Charge::kOwn) continue;
        if (!job.with_siblings && open.most_learners(job) == job.max_learners) {
          open.hold(job, job.max_learners * job.gpus_per_learner);
        } else {
          its.open = false;
        }
      }
    }
  }

  // Of a long queue those that would start next stay open, so that the gates of those behind them can wait.
  void open_next() {
    std::vector<Keeper> keepers(wanted_.size());
    for (size_t i = 0; i < keepers.size(); ++i) {
      const Wanted& its = wanted_[i];
      const Job& job = state_.jobs[i];
      if (job.running || its.turn || its.waits_for_victims) continue;
      if (its.charge == Charge::kBorrowed) keepers[i] = Keeper::kGate;
      const bool may_borrow = job.tier == Tier::kAuto && its.open && !soon_[i];
      if (its.charge == Charge::kOwn && may_borrow) keepers[i] = Keeper::kTokens;
    }
    const NextBorrowers next = next_borrowers(state_, decision_, keepers, now_);
    for (size_t i = 0; i < next.behind.size(); ++i) wanted_[i].gate_can_wait = next.behind[i] != 0;
    for (size_t i = 0; i < next.jobs.size(); ++i) {
      Wanted& its = wanted_[next.jobs[i]];
      its.next = its.open = true;
      its.charge = Charge::kBorrowed;
      its.rank = next.ranks[i];
    }
  }

  void set_gates() {
    std::vector<Wanted*> closed;
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (!state_.jobs[i].running && !wanted_[i].open) closed.push_back(&wanted_[i]);
    const int64_t far_s = far_gate_s(static_cast<int64_t>(closed.size()));
    for (size_t i = 0; i < closed.size(); ++i) closed[i]->gate_s = i < kNearGates ? kGateS : far_s;
  }

  // Own jobs that Slurm could start before the next decision, if the whole quota of their tenant came free: its next
  // ones in Slurm's own order. Only among those does it matter that they come before borrowers.
  void find_soon() {
    std::vector<std::vector<int>> queues(state_.tenants.size());
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (!state_.jobs[i].running && wanted_[i].charge == Charge::kOwn)
        queues[state_.jobs[i].tenant].push_back(static_cast<int>(i));
    soon_.assign(wanted_.size(), 0);
    for (size_t tenant = 0; tenant < queues.size(); ++tenant) {
      std::vector<int>& queue = queues[tenant];
      std::sort(queue.begin(), queue.end(), [&](int a, int b) {
        const Job& x = state_.jobs[a];
        const Job& y = state_.jobs[b];
        const bool x_first = x.tier == Tier::kGuaranteed;
        const bool y_first = y.tier == Tier::kGuaranteed;
        return std::tuple(!x_first, -x.priority, x.submit_s, x.id) <
               std::tuple(!y_first, -y.priority, y.submit_s, y.id);
      });
      int64_t gpus = state_.tenants[tenant].quota.total();
      for (const int group : groups_of(state_, static_cast<int>(tenant)))
        if (const GpuCounts* quota = state_.quota_of(group)) gpus += quota->total();
      for (const int index : queue) {
        if (gpus <= 0) break;
        soon_[index] = 1;
        gpus -= int64_t{state_.jobs[index].min_learners} * state_.jobs[index].gpus_per_learner;
      }
    }
  }

  void rank(int index) {
    const Job& job = state_.jobs[index];
    Wanted& its = wanted_[index];
    if (its.next || (!its.turn && its.charge != Charge::kOwn && !its.waits_for_victims)) return;
    its.rank = its.charge == Charge::kOwn ? kClaimRank : kBorrowRank - its.start;
    its.unranked_will_do = !its.turn && !soon_[index];
    if (job.tier == Tier::kGuaranteed) its.rank = kGuaranteedRank;
    // Until Slurm has started it: else it and the one behind it would change places each time.
    if (promised_.count(job.id) != 0 || (its.turn && job.promised)) {
      its.rank = kPromisedRank;
      its.unranked_will_do = false;
    }
    if (its.turn || !is_element(job.id)) return;
    const int64_t array = array_of(job.id);
    if (arrays_lent_to_.count(array) != 0 && arrays_with_own_.count(array) == 0) its.rank = kSiblingRank;
  }

  const ClusterState& state_;
  const Decision& decision_;
  const std::vector<HeldBack>& now_;
  std::vector<Wanted> wanted_;
  std::set<int64_t> promised_;         // claims for which jobs have yielded or are to
  std::set<int64_t> arrays_with_own_;  // of which an element starts on own GPUs
  std::set<int64_t> arrays_lent_to_;
  std::vector<char> soon_;  // by job
};

}  // namespace

std::vector<Wanted> wanted(const ClusterState& state, const Decision& decision, const std::vector<HeldBack>& now) {
  return Wishes(state, decision, now).wishes();
}

bool holds_before(const Job& a, const Wanted& a_wants, const Job& b, const Wanted& b_wants) {
  const auto place = [](const Job& job, const Wanted& wants) {
    return std::tuple(turn_to_hold(job, wants), job.start_s, job.id);
  };
  return place(a, a_wants) < place(b, b_wants);
}

int most_learners(const Job& job, const Wanted& wanted) {
  return !wanted.turn && wanted.smallest ? job.min_learners : job.max_learners;
}

int gpus_of(const ClusterState& state, const Start& start) {
  return learners_of(start.parts) * state.jobs[start.job].gpus_per_learner;
}

int64_t far_gate_s(int64_t gates) {
  return std::clamp<int64_t>(2 * gates / kRenewalsPerS, kGateS, kLongestGateS);
}

int64_t Grace::early_s() const {
  return std::min(kill_wait_s, grace_s / 2);
}

YieldOrder yield_order(const ClusterState& state, const Job& job, const std::optional<Yield>& told,
                       const std::optional<YieldRequest>& asked, GiveBack back, bool comes_back, const Grace& grace) {
  if (job.yields_to != kNobody && told) {
    const int64_t over_s = told->deadline_s + (back == GiveBack::kSave ? kSlackS : -grace.early_s());
    if (state.now_s >= over_s) {
      if (!comes_back) return {YieldStep::kEnd, told, {}};
      return {back == GiveBack::kSave ? YieldStep::kRequeue : YieldStep::kPutBack, told, {}};
    }
    if (!asked) return {YieldStep::kNothing, told, {}};
    Yield more = *told;
    more.learners = asked->learners_left;
    return {YieldStep::kAskMore, more, {}};
  }
  if (!asked) return told ? YieldOrder{YieldStep::kWithdraw, std::nullopt, {}} : YieldOrder{};
  // Asked anew, for another claim: its time has begun already.
  int64_t deadline = state.now_s + grace.grace_s;
  if (told && job.start_s <= told->deadline_s - grace.grace_s) deadline = std::min(deadline, told->deadline_s);
  YieldOrder order{YieldStep::kAsk, Yield{asked->claimant, deadline, asked->learners_left}, {}};
  if (job.idle) order.queued_s = state.now_s;
  return order;
}

JobLabel returned(JobLabel label, int64_t job) {
  if (!label.yields) return label;
  const bool resized = label.yields->claimant == job;  // as resizes_itself()
  if (!resized) label.size.reset();
  // A job that was asked to change its size has run for its minimum time already.
  label.shrunk = resized || label.yields->learners > 0;
  label.yields.reset();
  return label;
}

std::optional<NodeCount> node_count(const Decision& decision, const Job& job, const Wanted& wanted,
                                    const NodeRange& range, int node_gpus, int chosen) {
  if (range.max <= range.min) return std::nullopt;
  const Start* start = wanted.turn ? &decision.starts[wanted.start] : nullptr;
  if (!job.elastic()) {
    if (start == nullptr) return std::nullopt;
    const int nodes = std::clamp(static_cast<int>(start->parts.size()), range.min, range.max);
    return NodeCount{job.placement == Placement::kSpread ? nodes : 0, nodes};
  }
  const int learners_per_node = node_gpus / job.gpus_per_learner;
  const auto nodes_for = [&](int learners) { return std::clamp(learners / learners_per_node, range.min, range.max); };
  NodeCount count{range.min, range.max};
  if (start != nullptr || (chosen > 0 && !wanted.waits_for_victims)) {
    if (learners_per_node < 1) return std::nullopt;
    count.most = nodes_for(start != nullptr ? learners_of(start->parts) : chosen);
    if (start != nullptr) count.least = count.most;
  } else if (wanted.waits_for_victims) {
    if (wanted.smallest) count.most = range.min;
  } else if (range.now != NodeRange::Now::kSet) {
    return std::nullopt;
  }
  // Slurm gives it that many by itself, or fewer where it cannot: because of a constraint that the policy does not
  // know.
  if (range.now == NodeRange::Now::kThis && count.most == range.max) return std::nullopt;
  return count;
}

}  // namespace dl::policy
