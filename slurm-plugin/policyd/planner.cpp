// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/planner.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/user_limits.h"
#include "slurm-plugin/policyd/job_tokens.h"

namespace dl::policyd {
namespace {

using observe::ClusterView;
using observe::JobRecord;
using observe::SeenJob;
using policy::Charge;
using policy::JobLabel;
using policy::Reason;

// Ranks, as site factors: any claim before any borrower, and borrowers in the order of the decision.
// As in the decision, those come first for which jobs were asked to yield; and a guaranteed job before those of its
// own tenant that may borrow: they would take the quota that others left for it.
using observe::kPromisedFactor;
constexpr int64_t kGuaranteedFactor = 250'000;
constexpr int64_t kClaimFactor = 200'000;
constexpr int64_t kBorrowFactor = 100'000;
// Slurm tries no more elements of a job array in a round of its scheduler once one of them could not start
// (reject_array_job in slurmctld's job_scheduler.c): those that wait for own tokens come behind their siblings whose
// turn it is to borrow.
constexpr int64_t kSiblingFactor = 50'000;
// dlrun keeps the deadline itself, to the second; Slurm's requeue comes when it has not.
constexpr int64_t kSlackS = 3;
// Between a requeue and the next start: Slurm 22.05 revokes the credential of a job that starts in the same second.
constexpr int64_t kReturnS = 2;

struct Asked {
  int64_t claimant = 0;
  int learners_left = 0;
  int64_t lost_gpu_s = 0;
};

bool waits_for_victims(const policy::Waiting& waiting) {
  return waiting.reason == Reason::kVictimsLeaving || waiting.reason == Reason::kVictimsProtected;
}

class Planner {
 public:
  Planner(const ClusterView& view, const observe::Records& records, const policy::Decision& decision,
          const PlanOptions& options)
      : view_(view), state_(view.state), records_(records), decision_(decision), options_(options), tokens_(state_) {
    for (const policy::Move& move : decision.moves) moves_[move.job] = move.to;
    for (size_t i = 0; i < decision.starts.size(); ++i) {
      const policy::Start& start = decision.starts[i];
      starts_[start.job] = i;
      const int64_t id = state_.jobs[start.job].id;
      if (!policy::is_element(id)) continue;
      (start.charge == Charge::kOwn ? arrays_with_own_ : arrays_lent_to_).insert(policy::array_of(id));
    }
    for (const policy::Reclaim& reclaim : decision.reclaims)
      for (const policy::Victim& victim : reclaim.set.victims) ask(victim, state_.jobs[reclaim.claimant].id);
    find_kept_types();
    find_claims();
    find_beyond_user_limit();
  }

  std::vector<Action> plan() {
    // Tokens that are given back first: Slurm counts them at each message. Then the oldest, so that a job's tokens
    // change with what is older only.
    std::vector<int> order;
    for (size_t i = 0; i < view_.jobs.size(); ++i)
      if (state_.jobs[i].running && !view_.jobs[i].completing) order.push_back(static_cast<int>(i));
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const bool own_a = charge_of(a) == Charge::kOwn;
      const bool own_b = charge_of(b) == Charge::kOwn;
      if (own_a != own_b) return own_b;
      const policy::Job& x = state_.jobs[a];
      const policy::Job& y = state_.jobs[b];
      return x.start_s != y.start_s ? x.start_s < y.start_s : x.id < y.id;
    });
    for (const int index : order) running(index);
    for (size_t i = 0; i < view_.jobs.size(); ++i)
      if (!state_.jobs[i].running) pending(static_cast<int>(i));
    for (const SeenJob& seen : view_.aside) returned_aside(seen);
    std::stable_sort(actions_.begin(), actions_.end(), [](const Action& a, const Action& b) {
      // What starts jobs before what only keeps them waiting: a round carries out no more than so many.
      const auto rank = [](const Action& action) {
        if (action.kind != ActionKind::kOrder) return 0;
        return action.update.site_factor || action.update.licenses ? 1 : 2;
      };
      return rank(a) < rank(b);
    });
    return std::move(actions_);
  }

 private:
  const JobRecord& record(const SeenJob& seen) const { return records_.jobs[seen.record]; }

  // For several claims: it is the first one's victim, pauses once, and keeps what the last of them leaves it.
  void ask(const policy::Victim& victim, int64_t claimant) {
    Asked& asked = asked_.emplace(victim.job, Asked{claimant, 0, 0}).first->second;
    asked.learners_left = victim.learners_left;
    asked.lost_gpu_s += victim.lost_gpu_s;
  }

  // Slurm chooses the nodes. While a claim's place is being made free, a borrower might be given just that; so none
  // starts on GPUs of its type.
  void find_kept_types() {
    for (const policy::Waiting& waiting : decision_.waiting) {
      if (!waits_for_victims(waiting)) continue;
      const int type = state_.jobs[waiting.job].type;
      if (type == policy::kAnyType) all_kept_ = true;
      kept_types_.insert(type);
    }
  }
  // Who waits for victims, and how many claims do so or start, by the type that they ask for.
  void find_claims() {
    for (const policy::Job& job : state_.jobs) promised_.insert(job.yields_to);
    const auto note = [this](int index, bool waits) {
      ++claims_of_type_[state_.jobs[index].type];
      ++claims_;
      if (waits) waits_for_victims_.insert(index);
    };
    for (const policy::Waiting& waiting : decision_.waiting) {
      if (!waits_for_victims(waiting)) continue;
      note(waiting.job, true);
      if (waiting.reason == Reason::kVictimsLeaving) promised_.insert(state_.jobs[waiting.job].id);
    }
    for (const policy::Start& start : decision_.starts)
      if (start.charge == Charge::kOwn) note(start.job, false);
  }
  // Slurm starts a claim that waits as soon as its victims have gone, before its size is decided on anew. Beside other
  // claims it starts at its smallest then, and takes nothing that is made free for them.
  bool starts_smallest(int index) const {
    const policy::Job& job = state_.jobs[index];
    if (!job.elastic() || waits_for_victims_.count(index) == 0) return false;
    const auto of = [this](int type) {
      const auto found = claims_of_type_.find(type);
      return found != claims_of_type_.end() ? found->second : 0;
    };
    return (job.type == policy::kAnyType ? claims_ : of(job.type) + of(policy::kAnyType)) > 1;
  }
  // Own jobs wait for tokens, and slurmctld starts them as those come free, without asking here: of one user's, only so
  // many are left without a gate as he may hold together. Of a job array all elements wait whose turn it is not: they
  // have one record, and one begin time.
  void find_beyond_user_limit() {
    policy::UserLimits open(state_);
    for (const policy::Start& start : decision_.starts) open.hold(state_.jobs[start.job], gpus(start));
    for (const bool promised : {true, false}) {
      for (const policy::Waiting& waiting : decision_.waiting) {
        const policy::Job& job = state_.jobs[waiting.job];
        if (waits_for_victims(waiting) != promised || !open.concerns(job) || charge_of_waiting(job) != Charge::kOwn)
          continue;
        if (record(view_.jobs[waiting.job]).elements.empty() && open.most_learners(job) == job.max_learners) {
          open.hold(job, job.max_learners * job.gpus_per_learner);
        } else {
          beyond_user_limit_.insert(waiting.job);
        }
      }
    }
  }
  bool kept(const policy::Start& start) const {
    return start.charge == Charge::kBorrowed && (all_kept_ || kept_types_.count(start.type) != 0);
  }

  Charge charge_of(int index) const {
    const auto move = moves_.find(index);
    return move != moves_.end() ? move->second : state_.jobs[index].charge;
  }

  void running(int index) {
    const policy::Job& job = state_.jobs[index];
    const SeenJob& seen = view_.jobs[index];
    Action action;
    action.job = job.id;
    JobLabel label = seen.label;
    label.yielded.reset();
    const Charge charge = charge_of(index);
    action.kind = ActionKind::kCharge;
    if (charge != job.charge) {
      label.charge = charge;
      action.why = charge == Charge::kOwn ? "runs on its tenant's own quota now" : "runs on borrowed GPUs now";
      if (charge == Charge::kBorrowed && job.idle)
        action.why = fmt::format("has not used its {} GPUs for {} s: they count as lent", job.gpus(),
                                 state_.now_s - job.idle_since_s);
    }
    const std::string licenses = tokens_.of_running(record(seen).licenses, job, charge);
    if (licenses != record(seen).licenses) {
      action.update.licenses = licenses;
      if (action.why.empty()) action.why = "is charged to the type it got";
    }
    yields(index, &label, &action);
    add(seen, label, std::move(action));
  }

  void yields(int index, JobLabel* label, Action* action) {
    const policy::Job& job = state_.jobs[index];
    const auto asked = asked_.find(index);
    if (job.yields_to != policy::kNobody) {
      const int64_t late = state_.now_s - label->yields->deadline_s;
      if (late < kSlackS) {
        if (asked == asked_.end()) return;
        // It knows already, and is saving: what else it gives up changes only the size that it comes back with.
        action->kind = ActionKind::kYield;
        action->why = fmt::format("yields {} GPUs more, to job {} of '{}'",
                                  (label->yields->learners - asked->second.learners_left) * job.gpus_per_learner,
                                  policy::job_name(asked->second.claimant), tenant_of(asked->second.claimant));
        label->yields->learners = asked->second.learners_left;
        return;
      }
      action->kind = ActionKind::kRequeue;
      action->requeue = true;
      action->why = fmt::format("was to yield to job {} and is still there {} s after the deadline",
                                policy::job_name(job.yields_to), late);
      return;
    }
    if (asked == asked_.end()) {
      if (!label->yields) return;
      action->kind = ActionKind::kWithdraw;
      action->why = fmt::format("need not yield to job {} any more", policy::job_name(label->yields->claimant));
      label->yields.reset();
      return;
    }
    const Asked& what = asked->second;
    // Asked anew, for another claim: its time has begun already.
    int64_t deadline = state_.now_s + options_.grace_s;
    if (label->yields && job.start_s <= label->yields->deadline_s - options_.grace_s)
      deadline = std::min(deadline, label->yields->deadline_s);
    label->yields = policy::Yield{what.claimant, deadline, what.learners_left};
    // Else the older job would claim back from its own tenant's claim what it did not use.
    if (job.idle) label->queued_s = state_.now_s;
    action->kind = ActionKind::kYield;
    action->signal = view_.jobs[index].dlrun;
    action->why =
        fmt::format("yields {} GPUs to job {} of '{}' within {} s; {:.2f} GPU-hours of work are at risk",
                    (job.learners() - what.learners_left) * job.gpus_per_learner, policy::job_name(what.claimant),
                    tenant_of(what.claimant), deadline - state_.now_s, static_cast<double>(what.lost_gpu_s) / 3600);
  }

  std::string tenant_of(int64_t id) const {
    for (const policy::Job& job : state_.jobs)
      if (job.id == id) return state_.tenants[job.tenant].name;
    return "?";
  }

  void pending(int index) {
    const policy::Job& job = state_.jobs[index];
    const SeenJob& seen = view_.jobs[index];
    const JobRecord& its = record(seen);
    Action action;
    action.job = job.id;
    JobLabel label = seen.label;
    comes_back(its, &label, &action);
    label.yielded.reset();
    if (job.yields_to != policy::kNobody) label.yielded = job.yields_to;

    const auto started = starts_.find(index);
    const policy::Start* start = started != starts_.end() ? &decision_.starts[started->second] : nullptr;
    const bool turn = start != nullptr && !kept(*start);
    const Charge charge = turn ? start->charge : charge_of_waiting(job);
    label.charge = charge;
    policy::Job sized = job;
    if (!turn && starts_smallest(index)) sized.max_learners = sized.min_learners;
    const std::string licenses =
        tokens_.of_pending(its.licenses, sized, charge, turn ? start->type : job.type, turn ? gpus(*start) : 0);
    if (licenses != its.licenses) action.update.licenses = licenses;
    if (turn) {
      set_size(its, label, *start, &action);
    } else if (job.elastic() && waits_for_victims_.count(index) != 0) {
      set_range(its, label, !sized.elastic(), &action);
    }
    set_gate(seen, turn || (charge == Charge::kOwn && beyond_user_limit_.count(index) == 0), label, &action);
    // Its siblings stay behind the gate: their user may not hold more.
    if (turn && job.user != policy::kNobody && !its.elements.empty())
      action.update.begin_s = std::max(state_.now_s, label.begin_s.value_or(0));
    if (turn || charge == Charge::kOwn) {
      int64_t factor = charge == Charge::kOwn ? kClaimFactor : kBorrowFactor - static_cast<int64_t>(started->second);
      if (job.tier == Tier::kGuaranteed) factor = kGuaranteedFactor;
      // Until Slurm has started it: else it and the one behind it would change places each time.
      if (promised_.count(job.id) != 0 || (turn && job.promised)) factor = kPromisedFactor;
      if (!turn && behind_siblings(job.id)) factor = kSiblingFactor;
      if (its.site_factor != factor) action.update.site_factor = factor;
    }
    if (action.why.empty()) action.why = why_pending(job, start, turn, charge);
    if (its.element < 0 && policy::is_element(job.id) && !for_one_element(seen, turn, label, action.update)) {
      if (!whole_records_.insert(seen.record).second) return;
      action.job = its.id;
    }
    add(seen, label, std::move(action));
  }

  bool behind_siblings(int64_t id) const {
    const int64_t array = policy::array_of(id);
    return policy::is_element(id) && arrays_lent_to_.count(array) != 0 && arrays_with_own_.count(array) == 0;
  }

  // The waiting elements of a job array are one record of Slurm's. What one of them gets by its turn makes a record of
  // its own of it, so that the others do not start with it; what holds for all of them is written once.
  static bool for_one_element(const SeenJob& seen, bool turn, const JobLabel& label, const observe::JobUpdate& update) {
    return turn && (label.charge == Charge::kBorrowed || label.charge != seen.label.charge || update.licenses ||
                    update.max_nodes || update.begin_s);
  }

  // A job that may become a claim waits for own tokens; one that can never be one waits behind the gate.
  Charge charge_of_waiting(const policy::Job& job) const {
    if (job.tier == Tier::kBorrow) return Charge::kBorrowed;
    return job.tier == Tier::kGuaranteed || policy::could_be_own(state_, job) ? Charge::kOwn : Charge::kBorrowed;
  }

  // A job whose number of nodes is open gets as many as the decision gives it. What is free beyond that may be meant
  // for others; a spread job would wait for more nodes than have room. Any number within its range is one that it can
  // run on, also when nobody changes it again.
  void set_size(const JobRecord& its, const JobLabel& label, const policy::Start& start, Action* action) const {
    const policy::Job& job = state_.jobs[start.job];
    const int per_node = its.node_gpus / job.gpus_per_learner;
    if (label.max_nodes <= label.min_nodes || (job.elastic() && per_node < 1)) return;
    const int wanted =
        job.elastic() ? gpus(start) / job.gpus_per_learner / per_node : static_cast<int>(start.parts.size());
    const int nodes = std::clamp(wanted, label.min_nodes, label.max_nodes);
    if (its.max_nodes == static_cast<uint32_t>(nodes)) return;
    action->update.max_nodes = static_cast<uint32_t>(nodes);
    if (!job.elastic() && job.placement == policy::Placement::kSpread)
      action->update.min_nodes = action->update.max_nodes;
  }
  // Of a claim that waits: all that it was submitted with, or the fewest.
  static void set_range(const JobRecord& its, const JobLabel& label, bool smallest, Action* action) {
    const auto nodes = static_cast<uint32_t>(smallest ? label.min_nodes : label.max_nodes);
    if (label.max_nodes > label.min_nodes && its.max_nodes != nodes) action->update.max_nodes = nodes;
  }

  void set_gate(const SeenJob& seen, bool open, const JobLabel& label, Action* action) {
    const JobRecord& its = record(seen);
    if (open) {
      if (seen.gated && its.begin_s > state_.now_s + observe::kSoonS)
        action->update.begin_s = std::max(state_.now_s, label.begin_s.value_or(0));
      return;
    }
    // Renewed when half of the lease is over, so that a slow moment does not let it pass.
    const int64_t lease_s = gates_++ < kNearGates ? options_.lease_s : options_.far_lease_s;
    if (its.begin_s < state_.now_s + lease_s / 2) action->update.begin_s = state_.now_s + lease_s;
  }

  // A victim that has gone: what was asked of it is done, and Slurm's two minutes need not pass.
  bool comes_back(const JobRecord& its, JobLabel* label, Action* action) const {
    if (!label->yields) return false;
    action->kind = ActionKind::kReturn;
    action->why =
        fmt::format("has yielded to job {} and waits for its next turn", policy::job_name(label->yields->claimant));
    label->shrunk = label->yields->learners > 0;
    label->yields.reset();
    if (its.begin_s > state_.now_s + kReturnS) action->update.begin_s = state_.now_s + kReturnS;
    return true;
  }
  void returned_aside(const SeenJob& seen) {
    Action action;
    action.job = seen.id;
    JobLabel label = seen.label;
    if (comes_back(record(seen), &label, &action)) add(seen, label, std::move(action));
  }

  std::string why_pending(const policy::Job& job, const policy::Start* start, bool turn, Charge charge) const {
    const std::string& tenant = state_.tenants[job.tenant].name;
    if (turn && charge == Charge::kBorrowed)
      return fmt::format("may borrow {} GPUs now: it is the turn of '{}'", gpus(*start), tenant);
    if (turn) return fmt::format("fits the quota of '{}' and free GPUs", tenant);
    if (start != nullptr) return "waits: a claim's GPUs are being made free";
    if (charge == Charge::kOwn) return fmt::format("waits for the quota of '{}', or to be lent GPUs", tenant);
    return "waits to be lent GPUs";
  }
  int gpus(const policy::Start& start) const {
    int learners = 0;
    for (const policy::Part& part : start.parts) learners += part.learners;
    return learners * state_.jobs[start.job].gpus_per_learner;
  }

  void add(const SeenJob& seen, const JobLabel& label, Action action) {
    std::string text = policy::format_label(label);
    if (text != record(seen).admin_comment && text != policy::format_label(seen.label))
      action.update.admin_comment = std::move(text);
    if (action.update.empty() && !action.signal && !action.requeue) return;
    actions_.push_back(std::move(action));
  }

  const ClusterView& view_;
  const policy::ClusterState& state_;
  const observe::Records& records_;
  const policy::Decision& decision_;
  const PlanOptions& options_;
  JobTokens tokens_;
  std::map<int, Charge> moves_;
  std::map<int, size_t> starts_;
  std::map<int, Asked> asked_;
  std::set<int> kept_types_;
  std::set<int64_t> promised_;         // claims for which jobs have yielded or are to
  std::set<int> waits_for_victims_;    // claims
  std::map<int, int> claims_of_type_;  // as they ask for it
  int claims_ = 0;
  std::set<int> beyond_user_limit_;    // own jobs that wait
  std::set<int64_t> arrays_with_own_;  // of which an element starts on own GPUs
  std::set<int64_t> arrays_lent_to_;
  std::set<size_t> whole_records_;  // of job arrays, that have their action
  bool all_kept_ = false;
  int gates_ = 0;  // that are closed so far, of those that wait longest first
  std::vector<Action> actions_;
};

}  // namespace

const char* action_name(ActionKind kind) {
  switch (kind) {
    case ActionKind::kCharge:
      return "charge";
    case ActionKind::kOrder:
      return "order";
    case ActionKind::kYield:
      return "yield";
    case ActionKind::kWithdraw:
      return "withdraw";
    case ActionKind::kRequeue:
      return "requeue";
    case ActionKind::kReturn:
      return "return";
  }
  return "?";
}

std::vector<Action> plan(const ClusterView& view, const observe::Records& records, const policy::Decision& decision,
                         const PlanOptions& options) {
  return Planner(view, records, decision, options).plan();
}

}  // namespace dl::policyd
