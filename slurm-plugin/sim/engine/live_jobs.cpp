// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/engine/live_jobs.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/sizes/resize_order.h"
#include "slurm-plugin/policy/victims.h"
#include "slurm-plugin/sim/policies/policies.h"

namespace dl::sim {

using policy::Charge;
using policy::Job;
using policy::Part;

namespace {

std::vector<int> kinds_of(const Trace& trace) {
  std::map<std::tuple<std::string, std::string, int, int, int, double, Tier, policy::Placement>, int> known;
  std::vector<int> kinds;
  for (const TraceJob& job : trace.jobs) {
    const auto next = static_cast<int>(known.size());
    kinds.push_back(known
                        .try_emplace({job.tenant, job.type, job.gpus, job.min_learners, job.max_learners, job.serial,
                                      job.tier, job.placement},
                                     next)
                        .first->second);
  }
  return kinds;
}

// Work of a job in a second: its learners, or a thousand times what they are worth beside a serial part.
int64_t rate(const TraceJob& job, int learners) {
  if (job.serial <= 0) return learners;
  return std::max<int64_t>(1, static_cast<int64_t>(1000 * learners / (1 + job.serial * (learners - 1))));
}

}  // namespace

LiveJobs::LiveJobs(const Trace& trace, policy::ClusterState cluster, Recorder* recorder)
    : state(std::move(cluster)),
      trace_(trace),
      recorder_(*recorder),
      progress_(trace.jobs.size()),
      live_(trace.jobs.size(), -1),
      largest_(state.types.size(), 1),
      borrowed_(state.tenants.size()) {
  std::vector<int> node_gpus(state.types.size());
  for (const policy::Node& node : state.nodes) {
    free_.push_back(node.usable ? node.gpus : 0);
    levels.free += free_.back();
    node_gpus[node.type] = std::max(node_gpus[node.type], node.gpus);
  }
  for (size_t i = 0; i < trace.jobs.size(); ++i) {
    const TraceJob& job = trace.jobs[i];
    progress_[i].work_left = job.run_s * rate(job, job.max_learners);
    last_id_ = std::max(last_id_, job.id);
    for (size_t type = 0; type < largest_.size(); ++type) {
      if ((job.type.empty() || job.type == state.types[type]) && job.gpus <= node_gpus[type])
        largest_[type] = std::max(largest_[type], job.gpus);
    }
  }
  kind_ = kinds_of(trace);
  for (size_t node = 0; node < free_.size(); ++node) levels.unusable += free_[node] % largest_[state.nodes[node].type];
  state.now_s = trace.jobs.empty() ? 0 : trace.jobs.front().submit_s;
}

bool LiveJobs::older_like_it_waits(int job) const {
  const int kind = kind_[trace_of_[job]];
  for (int i = 0; i < job; ++i) {
    const Job& other = state.jobs[i];
    if (kind_[trace_of_[i]] == kind && other.limit_s <= state.jobs[job].limit_s && !other.promised &&
        other.yields_to == policy::kNobody)
      return true;
  }
  return false;
}

void LiveJobs::hold(const std::vector<Part>& parts, int gpus_per_learner, int sign) {
  for (const Part& part : parts) {
    const int gpus = sign * part.learners * gpus_per_learner;
    const int largest = largest_[state.nodes[part.node].type];
    levels.unusable -= free_[part.node] % largest;
    free_[part.node] -= gpus;
    levels.free -= gpus;
    levels.unusable += free_[part.node] % largest;
  }
}

int64_t LiveJobs::trained_s(int job) const {
  const Progress& progress = progress_[trace_of_[job]];
  return std::max<int64_t>(0, state.now_s - state.jobs[job].start_s - progress.overhead_s);
}

int64_t LiveJobs::saved_s(int job) const {
  if (is_companion(trace_of_[job])) return 0;
  const int64_t every = trace_.jobs[trace_of_[job]].checkpoint_s;
  return every > 0 ? trained_s(job) / every * every : 0;
}

void LiveJobs::advance(int64_t now_s) {
  recorder_.advance(now_s, levels);
  const int64_t elapsed = now_s - state.now_s;
  state.now_s = now_s;
  std::fill(borrowed_.begin(), borrowed_.end(), 0);
  for (auto i = static_cast<size_t>(waiting_); i < state.jobs.size(); ++i) {
    Job& job = state.jobs[i];
    if (const int64_t saved = saved_s(static_cast<int>(i)); saved > 0)
      job.checkpoint_s = job.start_s + progress_[trace_of_[i]].overhead_s + saved;
    if (job.charge == Charge::kBorrowed)
      borrowed_[job.tenant] += (job.gpus() - job.own_of(job.gpus())) * state.weight_of_type(state.type_held(job));
  }
  for (size_t i = 0; i < borrowed_.size(); ++i) {
    double& recent = state.tenants[i].recent_gpu_s;
    recent = policy::decayed_use(recent, borrowed_[i], elapsed, state.half_life_s);
  }
}

void LiveJobs::swap_places(int a, int b) {
  if (a == b) return;
  std::swap(state.jobs[a], state.jobs[b]);
  std::swap(limit_s[a], limit_s[b]);
  std::swap(trace_of_[a], trace_of_[b]);
  live_[trace_of_[a]] = a;
  live_[trace_of_[b]] = b;
}

void LiveJobs::move_place(int from, int to) {
  // std::rotate would swap every job in between.
  const auto move = [&](auto& values) {
    const auto begin = values.begin();
    auto moved = std::move(values[from]);
    if (from < to) {
      std::move(begin + from + 1, begin + to + 1, begin + from);
    } else {
      std::move_backward(begin + to, begin + from, begin + from + 1);
    }
    values[to] = std::move(moved);
  };
  move(state.jobs);
  move(limit_s);
  move(trace_of_);
  for (int i = std::min(from, to); i <= std::max(from, to); ++i) live_[trace_of_[i]] = i;
}

int LiveJobs::into_queue(int job) {
  swap_places(job, waiting_);
  const auto begin = state.jobs.begin();
  const auto place = std::upper_bound(begin, begin + waiting_, state.jobs[waiting_], [](const Job& a, const Job& b) {
    return a.submit_s != b.submit_s ? a.submit_s < b.submit_s : a.id < b.id;
  });
  const auto to = static_cast<int>(place - begin);
  move_place(waiting_, to);
  ++waiting_;
  ++levels.queued;
  return to;
}

int LiveJobs::out_of_queue(int job) {
  move_place(job, waiting_ - 1);
  --levels.queued;
  return --waiting_;
}

void LiveJobs::submit(int in_trace, Job job) {
  live_[in_trace] = static_cast<int>(state.jobs.size());
  progress_[in_trace].min_run_s = job.min_run_s;
  state.jobs.push_back(std::move(job));
  trace_of_.push_back(in_trace);
  const TraceJob& asked = trace_.jobs[in_trace];
  limit_s.push_back(std::max(asked.limit_s, asked.run_s));
  state.jobs.back().limit_s = limit_s.back();
  into_queue(live_[in_trace]);
}

int64_t LiveJobs::run(int job, int64_t requeue_s) {
  Job& it = state.jobs[job];
  Progress& progress = progress_[trace_of_[job]];
  it.running = true;
  it.start_s = state.now_s;
  it.checkpoint_s = state.now_s - 1;
  it.yields_to = policy::kNobody;
  it.promised = false;
  it.promised_parts.clear();
  progress.overhead_s = progress.attempt == 0 ? 0 : it.restart_s + requeue_s;
  ++progress.attempt;
  levels.running += it.gpus();
  int64_t& first = recorder_.jobs[trace_of_[job]].first_start_s;
  if (first < 0) first = state.now_s;
  const int64_t each = rate_of(job);
  // The user's limit is meant for all learners; with fewer of them the job takes longer.
  const int64_t all = rate(trace_.jobs[trace_of_[job]], it.max_learners);
  it.limit_s = progress.overhead_s + (limit_s[job] * all + each - 1) / each;
  return state.now_s + progress.overhead_s + (progress.work_left + each - 1) / each;
}

int64_t LiveJobs::start(int job, std::vector<Part> parts, Charge charge, int own_part) {
  job = out_of_queue(job);
  Job& it = state.jobs[job];
  hold(parts, it.gpus_per_learner, +1);
  it.parts = std::move(parts);
  it.charge = charge;
  it.own_part = own_part;
  return run(job);
}

void LiveJobs::hold(int job, int node) {
  Job& it = state.jobs[job];
  const auto at = std::lower_bound(it.parts.begin(), it.parts.end(), node,
                                   [](const Part& part, int wanted) { return part.node < wanted; });
  if (at != it.parts.end() && at->node == node) {
    ++at->learners;
  } else {
    it.parts.insert(at, Part{node, 1});
  }
  hold({Part{node, 1}}, it.gpus_per_learner, +1);
  levels.held_idle += it.gpus_per_learner;
}

int64_t LiveJobs::start_held(int job) {
  levels.held_idle -= state.jobs[job].gpus();
  return run(out_of_queue(job));
}

void LiveJobs::let_go(int job) {
  Job& it = state.jobs[job];
  levels.held_idle -= it.gpus();
  hold(it.parts, it.gpus_per_learner, -1);
  it.parts.clear();
  it.submit_s = state.now_s;
  into_queue(out_of_queue(job));
}

int64_t LiveJobs::pause(int job, int learners_left) {
  const int in_trace = trace_of_[job];
  Progress& progress = progress_[in_trace];
  settle(job, saved_s(job));
  ++recorder_.jobs[in_trace].pauses;
  while (!progress.companions.empty()) drop_companion(progress.companions.back());
  job = live_[in_trace];
  Job& it = state.jobs[job];
  hold(it.parts, it.gpus_per_learner, -1);
  it.parts = policy::parts_after_shrink(it.parts, learners_left);
  if (learners_left > 0) {
    hold(it.parts, it.gpus_per_learner, +1);
    it.min_run_s = 0;  // its minimum run time was over, otherwise it would not have been asked
    return run(job);
  }
  ++progress.attempt;
  it.running = false;
  it.charge = Charge::kOwn;
  it.own_part = 0;
  it.min_run_s = progress.min_run_s;
  it.limit_s = limit_s[job] + it.restart_s;
  into_queue(job);
  return -1;
}

void LiveJobs::settle(int job, int64_t kept_s) {
  const Job& it = state.jobs[job];
  Progress& progress = progress_[trace_of_[job]];
  // A job that was about to end keeps a second of work, so that it still has an end.
  progress.work_left = std::max<int64_t>(1, progress.work_left - kept_s * rate_of(job));
  const int64_t ran_s = state.now_s - it.start_s;
  recorder_.jobs[trace_of_[job]].held_gpu_s += static_cast<double>(ran_s) * it.gpus();
  // The loss is all that the job held GPUs for except what is kept, so it includes the restart of this attempt.
  recorder_.counts.lost_gpu_h += static_cast<double>(ran_s - kept_s) * gpus_in_use(job) / 3600;
  levels.running -= it.gpus();
}

int64_t LiveJobs::go_on(int job, int64_t requeue_s) {
  Job& it = state.jobs[job];
  ++progress_[trace_of_[job]].resizes;
  // Nobody waits longer for its GPUs since it was resized.
  it.min_run_s = std::max<int64_t>(0, it.min_run_s - (state.now_s - it.start_s));
  return run(job, requeue_s);
}

int64_t LiveJobs::rate_of(int job) const {
  return rate(trace_.jobs[trace_of_[job]], state.jobs[job].learners() + progress_[trace_of_[job]].more);
}

int64_t LiveJobs::resize(int job, std::vector<Part> parts, int64_t requeue_s) {
  Job& it = state.jobs[job];
  settle(job, trained_s(job));
  hold(it.parts, it.gpus_per_learner, -1);
  it.parts = std::move(parts);
  hold(it.parts, it.gpus_per_learner, +1);
  return go_on(job, requeue_s);
}

void LiveJobs::find_speeds(std::vector<policy::JobSpeeds>* speeds) const {
  size_t used = 0;
  int waiting = 0;
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    const Job& job = state.jobs[i];
    if (!job.elastic() || (!job.running && ++waiting > kMostWaiting)) continue;
    if (!progress_[trace_of_[i]].companions.empty()) continue;
    // Every job hears what it is asked, and none refuses.
    if (!policy::may_choose_size(job, true, told_of(job), false)) continue;
    if (used == speeds->size()) speeds->emplace_back();
    set_speeds(static_cast<int>(i), &(*speeds)[used++]);
  }
  speeds->resize(used);
}

void LiveJobs::set_speeds(int job, policy::JobSpeeds* known) const {
  const Job& it = state.jobs[job];
  const int most = policy::elastic::kMostPointsOfJob / std::max(1, state.type_count());
  const int in_trace = trace_of_[job];
  known->job = job;
  known->speeds.clear();
  for (int type = 0; type < state.type_count(); ++type)
    for (int n = it.min_learners; n <= std::min(it.max_learners, it.min_learners + most - 1); ++n)
      known->speeds.push_back({type, n, 1, 0, static_cast<double>(rate(trace_.jobs[in_trace], n))});
  const int64_t first = recorder_.jobs[in_trace].first_start_s;
  known->age_s = first < 0 ? 0 : static_cast<double>(state.now_s - first);
  known->restarts = progress_[in_trace].resizes;
}

void LiveJobs::set_usable(int node, bool usable) {
  policy::Node& it = state.nodes[node];
  if (it.usable == usable) return;
  const int largest = largest_[it.type];
  it.usable = usable;
  levels.unusable += (usable ? 1 : -1) * (it.gpus % largest);
  levels.free += (usable ? 1 : -1) * it.gpus;
  free_[node] = usable ? it.gpus : 0;
}

void LiveJobs::end(int job) {
  const int in_trace = trace_of_[job];
  Progress& progress = progress_[in_trace];
  JobRecord& record = recorder_.jobs[in_trace];
  recorder_.counts.lost_gpu_h += static_cast<double>(progress.overhead_s) * gpus_in_use(job) / 3600;
  while (!progress.companions.empty()) drop_companion(progress.companions.back());
  job = live_[in_trace];
  const Job& it = state.jobs[job];
  record.end_s = state.now_s;
  record.held_gpu_s += static_cast<double>(state.now_s - it.start_s) * it.gpus();
  levels.running -= it.gpus();
  hold(it.parts, it.gpus_per_learner, -1);
  ++progress.attempt;
  remove(job);
}

void LiveJobs::remove(int job) {
  const int number = trace_of_[job];
  swap_places(job, static_cast<int>(state.jobs.size()) - 1);
  live_[number] = -1;
  state.jobs.pop_back();
  limit_s.pop_back();
  trace_of_.pop_back();
}

}  // namespace dl::sim
