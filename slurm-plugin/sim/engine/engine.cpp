// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/engine/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <queue>
#include <set>
#include <tuple>

#include "common/base/parse.h"
#include "slurm-plugin/policy/admission.h"
#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/sim/engine/live_jobs.h"
#include "slurm-plugin/sim/world/cluster.h"

namespace dl::sim {
namespace {

using policy::ClusterState;
using Clock = std::chrono::steady_clock;

constexpr int kProgressEvery = 64;  // number of decisions between two calls of Hooks::progress

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

enum class What { kEnds, kYields, kJoins, kFails, kRepaired, kSubmitted, kWake, kImpatient, kStuck, kDecide };

struct Event {
  int64_t at_s = 0;
  What what = What::kWake;
  int in_trace = -1;    // index of the job in the trace, number of a companion, or the node that fails or is repaired
  int64_t attempt = 0;  // the job's attempt for which the event is meant

  bool operator>(const Event& other) const {
    return std::tie(at_s, what, in_trace) > std::tie(other.at_s, other.what, other.in_trace);
  }
};

class Replay {
 public:
  Replay(const Trace& trace, const SimPolicy& policy, const Scenario& scenario, const Hooks& hooks)
      : trace_(trace),
        policy_(policy),
        scenario_(scenario),
        hooks_(hooks),
        dice_(scenario.seed),
        failures_(scenario.seed + 1),
        recorder_(trace, gpus_in_all(scenario.cluster)),
        jobs_(trace, policy.quotas ? scenario.cluster : without_quotas(scenario.cluster), &recorder_),
        waiting_(trace.jobs.size()) {}

  Result<Outcome> run() {
    const auto begin = Clock::now();
    DL_TRY(submit_all());
    for (size_t i = 0; scenario_.mtbf_s > 0 && i < state().nodes.size(); ++i)
      push(Event{state().now_s + failures_.after(scenario_.mtbf_s), What::kFails, static_cast<int>(i), 0});
    while (!events_.empty()) {
      const int64_t now = events_.top().at_s;
      jobs_.advance(now);
      bool happened = false;
      while (!events_.empty() && events_.top().at_s == now) {
        const Event event = events_.top();
        events_.pop();
        if (!is_of_node(event)) --of_jobs_;
        happened |= handle(event);
      }
      due_ = due_ || happened;
      if (due_) decide_in_time();
      if (hooks_.progress && recorder_.counts.decisions % kProgressEvery == 0) hooks_.progress(now);
    }
    Outcome outcome = recorder_.finish(trace_.tenants());
    outcome.policy = policy_.name;
    if (outcome.decisions > 0) outcome.solver_mean_ms /= static_cast<double>(outcome.decisions);
    outcome.wall_s = seconds_since(begin);
    return outcome;
  }

 private:
  const ClusterState& state() const { return jobs_.state; }

  static bool is_of_node(const Event& event) { return event.what == What::kFails || event.what == What::kRepaired; }

  void push(const Event& event) {
    if (!is_of_node(event)) ++of_jobs_;
    events_.push(event);
  }

  // Makes an event of each submission. Jobs that can never run are refused here, as they would be at their submission.
  Status submit_all() {
    for (size_t i = 0; i < trace_.jobs.size(); ++i) {
      const TraceJob& asked = trace_.jobs[i];
      const auto tenant = policy::tenant_index(state(), asked.tenant);
      if (!tenant)
        return Error{Errc::kNotFound, fmt::format("job {}: there is no tenant '{}'; allowed: {}", asked.id,
                                                  asked.tenant, tenant_names())};
      const auto type = policy::type_index(state(), asked.type);
      if (!type)
        return Error{Errc::kNotFound, fmt::format("job {}: no node has GPUs of type '{}'; allowed: {}", asked.id,
                                                  asked.type, join(state().types, ", "))};
      policy::Job job = job_of(asked, *tenant, *type);
      if (!policy::admit(state(), job).admitted()) {
        recorder_.jobs[i].refused = true;
        continue;
      }
      waiting_[i] = std::move(job);
      push(Event{asked.submit_s, What::kSubmitted, static_cast<int>(i), 0});
    }
    return {};
  }

  std::string tenant_names() const {
    constexpr size_t kMost = 10;
    std::string names;
    for (size_t i = 0; i < state().tenants.size() && i < kMost; ++i)
      names += (i == 0 ? "" : ", ") + state().tenants[i].name;
    return names + (state().tenants.size() > kMost ? ", ..." : "");
  }

  policy::Job job_of(const TraceJob& asked, int tenant, int type) const {
    policy::Job job;
    job.id = asked.id;
    job.tenant = tenant;
    job.tier = policy_.never_borrow ? Tier::kGuaranteed : policy_.quotas ? asked.tier : Tier::kAuto;
    job.type = type;
    job.gpus_per_learner = asked.gpus;
    job.min_learners = asked.min_learners;
    job.max_learners = asked.max_learners;
    job.placement = policy_.placement.value_or(asked.placement);
    job.submit_s = asked.submit_s;
    job.restart_s = asked.restart_s;
    job.min_run_s = scenario_.min_run_s;
    job.pausable = asked.checkpoint_s > 0;
    return job;
  }

  // Carries an event out. False: it changes nothing, for example since it was meant for an attempt that is over.
  bool handle(const Event& event) {
    if (event.what == What::kSubmitted) {
      jobs_.submit(event.in_trace, std::move(waiting_[event.in_trace]));
      if (policy_.quotas && state().patience_s > 0)
        push(Event{state().now_s + state().patience_s, What::kImpatient, event.in_trace, 0});
      return may_matter(event.in_trace);
    }
    if (event.what == What::kImpatient) return may_matter(event.in_trace);
    if (event.what == What::kWake) {
      if (event.at_s == wake_s_) wake_s_ = -1;
      return !state().jobs.empty();
    }
    if (event.what == What::kDecide) return true;
    if (event.what == What::kFails) return fail(event.in_trace);
    if (event.what == What::kRepaired) return repair(event.in_trace);
    if (event.what == What::kStuck) return end_deadlock(event.at_s);
    if (jobs_.attempt(event.in_trace) != event.attempt) return false;
    if (event.what == What::kJoins) {
      use_companion(event.in_trace);
      return false;
    }
    if (jobs_.is_companion(event.in_trace)) {
      ++recorder_.counts.given_back;
      lose_companion(event.in_trace, true);
      return true;
    }
    const int job = jobs_.live(event.in_trace);
    if (event.what == What::kEnds) {
      jobs_.end(job);
    } else {
      yield(event.in_trace);
    }
    return true;
  }

  void yield(int in_trace) {
    const int job = jobs_.live(in_trace);
    const int keeps = state().jobs[job].yields_until_learners;
    ++(keeps > 0 ? recorder_.counts.shrinks : recorder_.counts.stops);
    ends(in_trace, jobs_.pause(job, keeps));
  }

  // Decides now, or at the next multiple of the interval.
  void decide_in_time() {
    const int64_t now = state().now_s;
    const int64_t every = std::max<int64_t>(1, scenario_.interval_s);
    const int64_t at_s = (now + every - 1) / every * every;
    if (at_s == now) {
      due_ = false;
      decide();
    } else if (decides_at_s_ != at_s) {
      decides_at_s_ = at_s;
      push(Event{at_s, What::kDecide, -1, 0});
    }
  }

  // A node fails: the jobs on it go back into the queue and lose the work that they had not saved.
  bool fail(int node) {
    // Only events of nodes are left, so the jobs that still wait will do so whatever fails; the replay is over.
    if (of_jobs_ == 0) return false;
    ++recorder_.counts.node_failures;
    const auto on_it = [&](const policy::Job& job) {
      return std::any_of(job.parts.begin(), job.parts.end(),
                         [&](const policy::Part& part) { return part.node == node; });
    };
    std::vector<int> hit;
    for (size_t i = 0; i < state().jobs.size(); ++i)
      if (on_it(state().jobs[i])) hit.push_back(jobs_.trace_of(static_cast<int>(i)));
    for (const int in_trace : hit) {
      const int job = jobs_.live(in_trace);
      if (job < 0) continue;  // a companion that has gone with its job
      if (jobs_.is_companion(in_trace)) {
        lose_companion(in_trace, false);
      } else if (state().jobs[job].running) {
        ++recorder_.counts.failed;
        jobs_.pause(job, 0);
      } else {
        jobs_.let_go(job);
      }
    }
    jobs_.set_usable(node, false);
    push(Event{state().now_s + scenario_.repair_s, What::kRepaired, node, 0});
    return true;
  }

  bool repair(int node) {
    jobs_.set_usable(node, true);
    push(Event{state().now_s + failures_.after(scenario_.mtbf_s), What::kFails, node, 0});
    return true;
  }

  // Whether a decision can have a new result for a job that was just submitted or lost its patience. It cannot if the
  // job no longer waits, or if an older job waits that asks for the same: that one found no place, so neither will this
  // one. (With balance it can, because shares change with time.)
  bool may_matter(int in_trace) const {
    const int job = jobs_.live(in_trace);
    if (job < 0 || state().jobs[job].running) return false;
    return !policy_.gang || state().balance || !jobs_.older_like_it_waits(job);
  }

  void ends(int in_trace, int64_t at_s) {
    if (at_s < 0) return;
    push(Event{at_s, What::kEnds, in_trace, jobs_.attempt(in_trace)});
  }

  void decide() {
    ClusterState before;
    // Without gang scheduling waiting jobs may hold GPUs, so loops over those that hold some must see all jobs.
    jobs_.state.first_running = policy_.gang ? static_cast<size_t>(jobs_.waiting()) : 0;
    if (hooks_.watch) before = state();
    const auto begin = Clock::now();
    if (policy_.resizes) {
      jobs_.find_speeds(&speeds_);
      jobs_.find_grown(&grown_, &grown_speeds_);
    }
    const Turn turn = policy_.take_turn(
        View{jobs_.state, jobs_.limit_s, hooks_.watch ? policy::Tell::kAll : policy::Tell::kWhatFollows, speeds_,
             grown_, grown_speeds_},
        &dice_);
    const double took_ms = seconds_since(begin) * 1e3;
    Outcome& counts = recorder_.counts;
    ++counts.decisions;
    counts.solver_mean_ms += took_ms;
    counts.solver_max_ms = std::max(counts.solver_max_ms, took_ms);
    std::vector<int> resized;  // before indexes change
    for (const policy::Resize& one : turn.resizes) resized.push_back(jobs_.trace_of(one.job));
    std::vector<int> growing;
    for (const policy::Growth& one : turn.growths) growing.push_back(jobs_.trace_of(one.job));
    carry_out(turn.decision);
    for (size_t i = 0; i < resized.size(); ++i) resize(resized[i], turn.resizes[i].parts);
    for (size_t i = 0; i < growing.size(); ++i) grow(growing[i], turn.growths[i]);
    for (const Placed& placed : turn.placed) jobs_.hold(placed.job, placed.node);
    if (!policy_.gang) start_whole_ones();
    jobs_.state.first_running = 0;
    if (hooks_.watch) hooks_.watch(before, turn, state());
  }

  // The job saves first. What it gives up can be used by the next decision, which follows a second later.
  void resize(int in_trace, const std::vector<policy::Part>& parts) {
    ++recorder_.counts.resizes;
    ends(in_trace, jobs_.resize(jobs_.live(in_trace), parts, scenario_.requeue_s));
    charge();
    if (looks_s_ != state().now_s + 1) push(Event{looks_s_ = state().now_s + 1, What::kDecide, -1, 0});
  }

  // A companion starts. The job trains as before until the companion's agents have come, then saves and starts again.
  void grow(int in_trace, policy::Growth growth) {
    ++recorder_.counts.grown;
    growth.job = jobs_.live(in_trace);
    const int companion = jobs_.add_companion(growth);
    charge();
    push(Event{state().now_s + scenario_.join_s, What::kJoins, companion, jobs_.attempt(companion)});
  }

  bool is_leaving(int in_trace) const { return state().jobs[jobs_.live(in_trace)].yields_to != policy::kNobody; }

  void use_companion(int companion) {
    const int job = jobs_.parent_of(companion);
    if (!is_leaving(job)) ends(job, jobs_.join(companion));
  }

  // A job that was asked to yield itself does so at once then.
  void lose_companion(int companion, bool saves) {
    const int job = jobs_.parent_of(companion);
    if (is_leaving(job)) return yield(job);
    ends(job, jobs_.leave(companion, saves));
  }

  void charge() {
    for (const policy::Move& move : policy::charge(jobs_.state)) policy::carry_out(move, &jobs_.state.jobs[move.job]);
  }

  void carry_out(const policy::Decision& decision) {
    Outcome& counts = recorder_.counts;
    for (const policy::Move& move : decision.moves) policy::carry_out(move, &jobs_.state.jobs[move.job]);
    // The decision only lists jobs that are promised a place now, so the former promises are removed first.
    for (const int in_trace : promised_) {
      const int job = jobs_.live(in_trace);
      if (job < 0 || state().jobs[job].running) continue;
      jobs_.state.jobs[job].promised = false;
      jobs_.state.jobs[job].promised_parts.clear();
    }
    promised_.clear();
    for (const policy::Waiting& waiting : decision.waiting) {
      if (waiting.reason != policy::Reason::kVictimsLeaving) continue;
      policy::Job& job = jobs_.state.jobs[waiting.job];
      job.promised = true;
      job.charge = waiting.lent ? policy::Charge::kBorrowed : policy::Charge::kOwn;
      job.promised_parts = waiting.parts;
      promised_.push_back(jobs_.trace_of(waiting.job));
    }
    counts.moves += static_cast<int64_t>(decision.moves.size());
    for (const policy::Reclaim& reclaim : decision.reclaims) {
      const int64_t claimant = state().jobs[reclaim.claimant].id;
      for (const policy::Victim& victim : reclaim.set.victims) ask_to_yield(claimant, victim);
    }
    // Starts come last, since the indexes of jobs change when one starts.
    std::vector<int> starting;
    for (const policy::Start& start : decision.starts) starting.push_back(jobs_.trace_of(start.job));
    for (size_t i = 0; i < starting.size(); ++i) {
      const policy::Start& start = decision.starts[i];
      ends(starting[i], jobs_.start(jobs_.live(starting[i]), start.parts, start.charge, start.own_part));
    }
    wake_for(decision);
  }

  // Plans another decision for the time at which the first minimum run time ends that a claim waits for.
  void wake_for(const policy::Decision& decision) {
    int64_t soonest = 0;
    for (const policy::Waiting& waiting : decision.waiting) {
      if (waiting.seconds > 0 && (soonest == 0 || waiting.seconds < soonest)) soonest = waiting.seconds;
    }
    if (soonest == 0) return;
    const int64_t at_s = state().now_s + soonest;
    if (wake_s_ > state().now_s && wake_s_ <= at_s) return;
    wake_s_ = at_s;
    push(Event{at_s, What::kWake, -1, 0});
  }

  void ask_to_yield(int64_t claimant, const policy::Victim& victim) {
    policy::Job& job = jobs_.state.jobs[victim.job];
    const bool leaves_already = job.yields_to != policy::kNobody;
    if (!leaves_already) job.yields_to = claimant;
    job.yields_until_learners = victim.learners_left;
    if (took_.count({job.id, claimant}) != 0) ++recorder_.counts.ping_pong;
    took_.insert({claimant, job.id});
    if (leaves_already) return;  // it will give up more when it goes, at the time that was already set
    const int in_trace = jobs_.trace_of(victim.job);
    push(Event{state().now_s + scenario_.yield_s, What::kYields, in_trace, jobs_.attempt(in_trace)});
  }

  // Without gang scheduling: jobs that have all their learners run from now on; the others keep the GPUs that they
  // hold. They are in a deadlock if one of them could start with the GPUs that all of them hold together.
  void start_whole_ones() {
    std::vector<int> whole;
    std::vector<int> holding;
    for (size_t i = 0; i < state().jobs.size(); ++i) {
      const policy::Job& job = state().jobs[i];
      if (job.running || job.parts.empty()) continue;
      const int index = static_cast<int>(i);
      if (job.learners() >= job.min_learners) {
        whole.push_back(jobs_.trace_of(index));
      } else {
        holding.push_back(jobs_.trace_of(index));
      }
    }
    for (const int in_trace : whole) ends(in_trace, jobs_.start_held(jobs_.live(in_trace)));
    for (int& index : holding) index = jobs_.live(index);
    const bool was = jobs_.levels.deadlock;
    jobs_.levels.deadlock = holding.size() >= 2 && one_would_be_whole(holding);
    if (was || !jobs_.levels.deadlock) return;
    ++recorder_.counts.deadlocks;
    watch_deadlock();
  }

  bool one_would_be_whole(const std::vector<int>& holding) const {
    policy::FreeGpus room(state());
    for (const int index : holding) room.give(state().jobs[index].parts, state().jobs[index].gpus_per_learner);
    return std::any_of(holding.begin(), holding.end(), [&](int index) {
      const policy::Job& job = state().jobs[index];
      return room.slots(state().type_held(job), job.gpus_per_learner) >= job.min_learners;
    });
  }

  void watch_deadlock() {
    if (scenario_.stuck_s == 0) return;
    stuck_s_ = state().now_s + scenario_.stuck_s;
    push(Event{stuck_s_, What::kStuck, -1, 0});
  }

  // The deadlock that began stuck_s ago still exists: the youngest job that holds learners gives them up.
  bool end_deadlock(int64_t at_s) {
    if (at_s != stuck_s_ || !jobs_.levels.deadlock) return false;
    int youngest = -1;
    for (size_t i = 0; i < state().jobs.size(); ++i) {
      const policy::Job& job = state().jobs[i];
      if (job.running || job.parts.empty()) continue;
      if (youngest < 0 ||
          std::tie(job.submit_s, job.id) > std::tie(state().jobs[youngest].submit_s, state().jobs[youngest].id))
        youngest = static_cast<int>(i);
    }
    if (youngest < 0) return false;
    ++recorder_.counts.withdrawn;
    jobs_.let_go(youngest);
    watch_deadlock();
    return true;
  }

  const Trace& trace_;
  const SimPolicy& policy_;
  const Scenario& scenario_;
  const Hooks& hooks_;
  Dice dice_;
  Dice failures_;
  Recorder recorder_;
  LiveJobs jobs_;
  std::vector<policy::Job> waiting_;  // by job of the trace; moved out at its submission
  std::vector<int> promised_;         // indexes into the trace's jobs
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::set<std::pair<int64_t, int64_t>> took_;  // ids of claimant and victim
  int64_t wake_s_ = -1;  // the planned time at which a minimum run time ends; -1: no claim waits for one
  int64_t stuck_s_ = -1;
  int64_t of_jobs_ = 0;  // events in the queue that concern jobs, not nodes
  bool due_ = false;     // a decision is necessary
  int64_t decides_at_s_ = -1;
  int64_t looks_s_ = -1;                                  // the planned time of a decision after resizes
  std::vector<policy::JobSpeeds> speeds_, grown_speeds_;  // those of View
  std::vector<policy::Grown> grown_;
};

}  // namespace

Result<Outcome> replay(const Trace& trace, const SimPolicy& policy, const Scenario& scenario, const Hooks& hooks) {
  ClusterState empty = scenario.cluster;
  empty.jobs.clear();
  DL_TRY(policy::check(empty));
  Scenario mine = scenario;
  mine.cluster = std::move(empty);
  return Replay(trace, policy, mine, hooks).run();
}

}  // namespace dl::sim
