// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/planner.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/base/parse.h"
#include "common/contract/vote_hint.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/policy/sizes/resize_order.h"
#include "slurm-plugin/policy/tokens.h"
#include "slurm-plugin/policy/wanted.h"
#include "slurm-plugin/policyd/diff.h"
#include "slurm-plugin/policyd/dropping.h"
#include "slurm-plugin/policyd/job_tokens.h"
#include "slurm-plugin/policyd/resizing.h"

namespace dl::policyd {
namespace {

using observe::ClusterView;
using observe::JobRecord;
using observe::SeenJob;
using policy::Charge;
using policy::JobLabel;
using policy::ResizeStep;
using policy::Wanted;
using policy::YieldStep;

class Planner {
 public:
  Planner(const ClusterView& view, const observe::Records& records, const policy::Decision& decision,
          const policy::Grace& grace, const std::vector<policy::Resize>& resizes,
          const std::vector<policy::Growth>& growths)
      : view_(view),
        state_(view.state),
        records_(records),
        decision_(decision),
        grace_(grace),
        wanted_(policy::wanted(view.state, decision, held_back(view, records))),
        tokens_(state_) {
    for (const policy::Resize& resize : resizes) sizes_[resize.job] = learners_of(resize.parts);
    for (const policy::Growth& growth : growths) growths_[growth.job] = &growth;
  }

  std::vector<Action> actions() {
    std::vector<int> order;
    for (size_t i = 0; i < view_.jobs.size(); ++i)
      if (state_.jobs[i].running && !view_.jobs[i].completing) order.push_back(static_cast<int>(i));
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return policy::holds_before(state_.jobs[a], wanted_[a], state_.jobs[b], wanted_[b]);
    });
    for (const int index : order) running(index);
    for (size_t i = 0; i < view_.jobs.size(); ++i)
      if (!state_.jobs[i].running) pending(static_cast<int>(i));
    for (const SeenJob& seen : view_.aside) aside(seen);
    for (const observe::Uncharged& job : view_.uncharged) hold(job);
    std::stable_sort(actions_.begin(), actions_.end(), [](const Action& a, const Action& b) {
      // Changes that can start a job come before those that keep one waiting, because a round may not get through all
      // of them. What can wait comes last; of that, gates that are there already are renewed first.
      const auto rank = [](const Action& action) {
        if (action.can_wait) return action.renews ? 3 : 4;
        if (action.kind == ActionKind::kHold) return 1;
        if (action.kind != ActionKind::kOrder) return 0;
        return action.update.site_factor || action.update.licenses ? 1 : 2;
      };
      return rank(a) < rank(b);
    });
    return std::move(actions_);
  }

 private:
  static std::vector<policy::HeldBack> held_back(const ClusterView& view, const observe::Records& records) {
    std::vector<policy::HeldBack> held;
    for (const SeenJob& seen : view.jobs) held.push_back({seen.gated, records.jobs[seen.record].site_factor});
    return held;
  }

  const JobRecord& record(const SeenJob& seen) const { return records_.jobs[seen.record]; }

  void running(int index) {
    const policy::Job& job = state_.jobs[index];
    const SeenJob& seen = view_.jobs[index];
    const Charge charge = wanted_[index].charge;
    const int own_part = wanted_[index].own_part;
    Action action;
    action.job = job.id;
    action.kind = ActionKind::kCharge;
    Target target;
    target.label = seen.label;
    target.label.yielded.reset();
    target.label.own_part = own_part;
    if (charge == Charge::kBorrowed && own_part > 0 && own_part != job.own_of(job.gpus()))
      action.why = fmt::format("runs on {} GPUs of its tenant's own quota and {} borrowed ones now", own_part,
                               job.gpus() - own_part);
    if (charge != job.charge) {
      target.label.charge = charge;
      if (charge == Charge::kOwn) action.why = "runs on its tenant's own quota now";
      if (action.why.empty()) action.why = "runs on borrowed GPUs now";
      if (charge == Charge::kBorrowed && job.idle)
        action.why = fmt::format("has not used its {} GPUs for {} s: they count as lent", job.gpus(),
                                 state_.now_s - job.idle_since_s);
    }
    target.licenses = tokens_.of_running(record(seen).licenses, job, {charge, own_part});
    if (*target.licenses != record(seen).licenses && action.why.empty()) action.why = "is charged to the type it got";
    unmark_begun(seen, record(seen), &target.label, &action.why);
    if (!resize(index, &target.label, &action)) yields(index, &target.label, &action);
    if (action.kind == ActionKind::kCharge) grow(index, &target.label, &action);
    add(seen, target, std::move(action));
  }

  // False: what claims ask of it decides.
  bool resize(int index, JobLabel* label, Action* action) const {
    const policy::Job& job = state_.jobs[index];
    const auto size = sizes_.find(index);
    const int learners = size == sizes_.end() ? 0 : size->second;
    const policy::ResizeOrder order =
        policy::resize_order(state_, job, label->yields, wanted_[index].asked.has_value(), learners, grace_);
    if (order.step == ResizeStep::kWithdraw) {
      label->yields.reset();
      if (label->size) label->size->learners = job.learners();
      action->kind = ActionKind::kWithdraw;
      action->why = "keeps its size: it did not save and stop within its time";
    }
    if (order.step == ResizeStep::kAsk) {
      label->yields = order.yield;
      label->size = order.size;
      action->kind = ActionKind::kResize;
      action->signal = view_.jobs[index].dlrun;
      action->why = resize_text(job, learners, vote_hint_in(record(view_.jobs[index]).comment));
      allow_requeue(index, action);
    }
    return order.step != ResizeStep::kNothing;
  }

  void grow(int index, JobLabel* label, Action* action) const {
    const auto growth = growths_.find(index);
    if (growth == growths_.end() || label->yields) return;
    label->grow = policy::Offer{growth->second->nodes, state_.now_s};
    action->kind = ActionKind::kGrow;
    action->signal = true;
    action->why = growth_text(state_, *growth->second);
  }

  void yields(int index, JobLabel* label, Action* action) const {
    const policy::Job& job = state_.jobs[index];
    const auto& asked = wanted_[index].asked;
    const policy::YieldOrder order =
        policy::yield_order(state_, job, label->yields, asked, policy::gives_back(*label), comes_back(index), grace_);
    switch (order.step) {
      case YieldStep::kNothing:
        return;
      case YieldStep::kAskMore:
        action->kind = ActionKind::kYield;
        action->why = fmt::format("yields {} GPUs more, to job {} of '{}'",
                                  (label->yields->learners - asked->learners_left) * job.gpus_per_learner,
                                  policy::job_name(asked->claimant), tenant_of(asked->claimant));
        break;
      case YieldStep::kRequeue:
      case YieldStep::kPutBack:
      case YieldStep::kEnd:
        take(index, *label, order.step, action);
        return;
      case YieldStep::kWithdraw:
        action->kind = ActionKind::kWithdraw;
        action->why = fmt::format("need not yield to job {} any more", policy::job_name(label->yields->claimant));
        break;
      case YieldStep::kAsk:
        if (order.queued_s) label->queued_s = order.queued_s;
        action->kind = ActionKind::kYield;
        action->signal = view_.jobs[index].dlrun;
        action->why =
            fmt::format("yields {} GPUs to job {} of '{}' within {} s; {:.2f} GPU-hours of work are at risk",
                        (job.learners() - asked->learners_left) * job.gpus_per_learner,
                        policy::job_name(asked->claimant), tenant_of(asked->claimant),
                        order.yield->deadline_s - state_.now_s, static_cast<double>(asked->lost_gpu_s) / 3600);
        prepare(index, *label, order.yield->deadline_s, action);
        break;
    }
    label->yields = order.yield;
  }

  bool comes_back(int index) const {
    const SeenJob& seen = view_.jobs[index];
    return observe::comes_back(seen.label, record(seen));
  }
  // At submission the user was told that the job would be put back. He may have forbidden Slurm to requeue it since, so
  // this allows it again.
  void allow_requeue(int index, Action* action) const {
    if (comes_back(index) && !record(view_.jobs[index]).requeueable) action->update.requeue = true;
  }

  // Prepares a victim to give its GPUs back; a job that cannot save gets a notice in its output, because it does not
  // react to a signal.
  void prepare(int index, const JobLabel& label, int64_t deadline_s, Action* action) const {
    allow_requeue(index, action);
    const policy::GiveBack back = policy::gives_back(label);
    action->slurm_id = record(view_.jobs[index]).id;
    if (back == policy::GiveBack::kSave) return;
    const int64_t left_s = std::max<int64_t>(0, deadline_s - grace_.early_s() - state_.now_s);
    action->notice = fmt::format("the owner of the lent GPUs of this job needs them: in {} it is {}",
                                 format_duration(std::chrono::seconds(left_s)),
                                 comes_back(index) ? "put back into the queue, and will begin anew" : "ended");
  }

  void take(int index, const JobLabel& label, YieldStep step, Action* action) const {
    const policy::Job& job = state_.jobs[index];
    const std::string claimant = policy::job_name(job.yields_to);
    if (step == YieldStep::kEnd) {
      action->kind = ActionKind::kEnd;
      action->end = true;
      action->why = fmt::format(
          "holds lent GPUs that job {} needs, and can neither save nor be put back: it is ended, "
          "as its user was told at submission",
          claimant);
      return;
    }
    allow_requeue(index, action);
    action->requeue = true;
    action->kind = ActionKind::kRequeue;
    action->why = fmt::format("was to yield to job {} and is still there {} s after the deadline", claimant,
                              state_.now_s - label.yields->deadline_s);
    if (step == YieldStep::kRequeue) return;
    action->kind = ActionKind::kPutBack;
    action->why = fmt::format("holds lent GPUs that job {} needs, and cannot save: it begins anew later", claimant);
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
    const Wanted& wants = wanted_[index];
    const policy::Start* start = wants.start < 0 ? nullptr : &decision_.starts[wants.start];
    Action action;
    action.job = job.id;
    Target target;
    target.label = seen.label;
    target.returned = has_returned(&target.label, &action);
    target.label.yielded.reset();
    unmark_begun(seen, its, &target.label, &action.why);
    if (job.yields_to != policy::kNobody) target.label.yielded = job.yields_to;
    target.label.charge = wants.charge;
    target.label.own_part = wants.own_part;
    policy::Job sized = job;
    sized.max_learners = policy::most_learners(job, wants);
    target.licenses =
        tokens_.of_pending(its.licenses, sized, {wants.charge, wants.own_part}, wants.turn ? start->type : job.type,
                           wants.turn ? policy::gpus_of(state_, *start) : 0);
    policy::Job submitted = job;  // one that starts at a chosen size is elastic all the same
    submitted.min_learners = std::min(job.min_learners, seen.label.learners.min);
    submitted.max_learners = std::max(job.max_learners, seen.label.learners.max);
    // What is chosen for it now, or was when it was asked to start again: then the view has it as the largest size.
    const auto size = sizes_.find(index);
    const int chosen = size != sizes_.end() ? size->second : seen.label.size ? job.max_learners : 0;
    set_nodes(policy::node_count(decision_, submitted, wants, submitted_range(seen), its.node_gpus, chosen), &target);
    target.site_factor = wants.rank;
    target.unranked_will_do = wants.unranked_will_do;
    target.begin = wants.open ? Begin::kOpen : Begin::kGated;
    target.gate_s = wants.gate_s;
    // The other elements of its array stay behind the gate: their user may not hold more GPUs.
    if (wants.turn && job.user != policy::kNobody && job.with_siblings) target.begin = Begin::kOpenNow;
    if (action.why.empty()) action.why = why_pending(job, start, wants);
    if (its.element < 0 && policy::is_element(job.id) && !for_one_element(seen, target, wants.turn)) {
      if (!whole_records_.insert(seen.record).second) return;
      action.job = its.id;
    }
    add(seen, target, std::move(action), wants.gate_can_wait);
  }

  // The waiting elements of a job array share one record of Slurm's. A change that lets one element start is made to
  // this element alone, which splits it off, so that the others do not start with it. A change that concerns all of
  // them is made once, to the record.
  bool for_one_element(const SeenJob& seen, const Target& target, bool turn) const {
    const observe::JobUpdate update = change(seen, target);
    return turn && (target.label.charge == Charge::kBorrowed || target.label.charge != seen.label.charge ||
                    update.licenses || update.max_nodes || update.begin_s);
  }

  policy::NodeRange submitted_range(const SeenJob& seen) const {
    using Now = policy::NodeRange::Now;
    const JobLabel& label = seen.label;
    // A job that starts again at a chosen size is to have just that.
    const bool same = record(seen).max_nodes == static_cast<uint32_t>(label.max_nodes) && !label.size;
    return {label.min_nodes, label.max_nodes, label.nodes_set ? Now::kSet : same ? Now::kThis : Now::kOther};
  }
  static void set_nodes(const std::optional<policy::NodeCount>& nodes, Target* target) {
    if (!nodes) return;
    if (nodes->least > 0) target->min_nodes = static_cast<uint32_t>(nodes->least);
    target->max_nodes = static_cast<uint32_t>(nodes->most);
  }

  // A victim that has gone has done what it was asked for.
  static bool has_returned(JobLabel* label, Action* action) {
    if (!label->yields) return false;
    action->kind = ActionKind::kReturn;
    action->why = policy::resizes_itself(label->yields, action->job)
                      ? fmt::format("has saved, and starts again with up to {} learners", label->yields->learners)
                      : fmt::format("has yielded to job {} and waits for its next turn",
                                    policy::job_name(label->yields->claimant));
    *label = policy::returned(*label, action->job);
    return true;
  }
  void aside(const SeenJob& seen) {
    Action action;
    action.job = seen.id;
    Target target;
    target.label = seen.label;
    target.returned = has_returned(&target.label, &action);
    if (record(seen).held && seen.label.unowned) release(seen, &target, &action);
    const bool whole = give_whole_range(seen, &target);
    if (whole && action.why.empty()) action.why = "may start on any number of nodes of its range again";
    const bool unmarked = unmark_begun(seen, record(seen), &target.label, &action.why);
    if (target.returned || whole || unmarked || action.kind == ActionKind::kRelease)
      add(seen, target, std::move(action));
  }
  // Of an elastic job for which nothing is decided: just the number of nodes of a decision may be what Slurm does not
  // find, because of a constraint that the policy does not know.
  bool give_whole_range(const SeenJob& seen, Target* target) const {
    const policy::NodeRange range = submitted_range(seen);
    const bool shared = record(seen).element < 0 && policy::is_element(seen.id);
    if (!seen.label.learners.elastic() || !seen.label.nodes_set || range.max <= range.min || shared) return false;
    set_nodes(policy::NodeCount{range.min, range.max}, target);
    return true;
  }

  // Slurm drops licences that slurm.conf no longer declares. The job would then start and be charged to nobody, so it
  // is held.
  void hold(const observe::Uncharged& job) {
    const JobRecord& its = records_.jobs[job.record];
    if (its.phase != observe::JobPhase::kPending || its.held) return;
    Action action;
    action.kind = ActionKind::kHold;
    action.job = its.id;
    action.why = fmt::format("its tenant '{}' is not in dl.toml any more: it is held until that is declared again",
                             job.label.tenant);
    JobLabel label = job.label;
    label.unowned = true;
    if (!job.label.unowned) action.update.admin_comment = policy::format_label(label);
    action.update.hold = true;
    actions_.push_back(std::move(action));
  }
  // The job gets the licences that it was submitted with. slurmctld refuses the change until slurm.conf declares them
  // again.
  void release(const SeenJob& seen, Target* target, Action* action) const {
    const JobLabel& label = seen.label;
    const auto tenant = policy::tenant_index(state_, label.tenant);
    const auto type = policy::type_index(state_, label.type);
    if (!tenant || !type) return;
    const auto tokens = policy::tokens_for(state_, *tenant, *type, label.learners.min * label.gpus, label.charge,
                                           nullptr, label.own_part);
    if (!tokens) return;
    action->kind = ActionKind::kRelease;
    action->why = fmt::format("its tenant '{}' is in dl.toml again", label.tenant);
    action->update.hold = false;
    target->licenses =
        policy::with_tokens(policy::without_tokens(record(seen).licenses), policy::format_licences(*tokens));
    target->label.unowned = false;
  }

  std::string why_pending(const policy::Job& job, const policy::Start* start, const Wanted& wants) const {
    const std::string& tenant = state_.tenants[job.tenant].name;
    if (wants.turn && wants.charge == Charge::kBorrowed)
      return fmt::format(
          "may borrow {} GPUs now{}: it is the turn of '{}'", policy::gpus_of(state_, *start) - wants.own_part,
          wants.own_part > 0 ? fmt::format(", beside {} of its tenant's own", wants.own_part) : "", tenant);
    if (wants.turn) return fmt::format("fits the quota of '{}' and free GPUs", tenant);
    const int fewest = job.min_learners * job.gpus_per_learner;
    if (start != nullptr)
      return fmt::format(
          "waits, though {} GPUs are free: Slurm chooses the nodes, and could choose those that jobs are "
          "leaving for a job within its quota",
          policy::gpus_of(state_, *start));
    if (wants.next)
      return fmt::format("may borrow {} GPUs as soon as they come free: '{}' is among the next", fewest, tenant);
    if (wants.charge == Charge::kOwn)
      return fmt::format("waits until {} GPUs of the quota of '{}', or of what others lend, are free", fewest, tenant);
    return fmt::format("waits until it is the turn of '{}' to borrow {} GPUs", tenant, fewest);
  }

  observe::JobUpdate change(const SeenJob& seen, const Target& target) const {
    return diff(present_of(record(seen), seen.label, seen.gated), target, state_.now_s);
  }
  // Whether all that the action does is to keep a job waiting for longer.
  bool only_gates(const Action& action) const {
    if (action.kind != ActionKind::kOrder || action.update.begin_s.value_or(0) <= state_.now_s) return false;
    observe::JobUpdate others = action.update;
    others.begin_s.reset();
    return others.empty();
  }
  bool gate_ends(const SeenJob& seen) const { return record(seen).begin_s <= state_.now_s + observe::kSoonS; }

  void add(const SeenJob& seen, const Target& target, Action action, bool gate_can_wait = false) {
    const std::optional<bool> hold = action.update.hold, requeue = action.update.requeue;
    action.update = change(seen, target);
    action.update.hold = hold;
    action.update.requeue = requeue;
    if (action.update.empty() && !action.signal && !action.requeue && !action.end) return;
    action.renews = seen.gated;
    action.can_wait = only_gates(action) && (seen.gated ? !gate_ends(seen) : gate_can_wait);
    actions_.push_back(std::move(action));
  }

  const ClusterView& view_;
  const policy::ClusterState& state_;
  const observe::Records& records_;
  const policy::Decision& decision_;
  const policy::Grace& grace_;
  const std::vector<Wanted> wanted_;  // by job
  JobTokens tokens_;
  std::map<int, int> sizes_;                      // by job: the learners that it is to have
  std::map<int, const policy::Growth*> growths_;  // by job
  std::set<size_t> whole_records_;                // records of job arrays for which an action exists already
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
    case ActionKind::kPutBack:
      return "put back";
    case ActionKind::kEnd:
      return "end";
    case ActionKind::kReturn:
      return "return";
    case ActionKind::kHold:
      return "hold";
    case ActionKind::kDrop:
      return "drop";
    case ActionKind::kRelease:
      return "release";
    case ActionKind::kResize:
      return "resize";
    case ActionKind::kGrow:
      return "grow";
  }
  return "?";
}

std::vector<Action> needed_actions(const ClusterView& view, const observe::Records& records,
                                   const policy::Decision& decision, const policy::Grace& grace,
                                   const std::vector<policy::Resize>& resizes,
                                   const std::vector<policy::Growth>& growths) {
  return Planner(view, records, decision, grace, resizes, growths).actions();
}

}  // namespace dl::policyd
