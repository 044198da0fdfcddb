// SPDX-License-Identifier: Apache-2.0
// Growth in place: whole nodes that a job has beside its own.
#include <algorithm>

#include "slurm-plugin/sim/engine/live_jobs.h"

namespace dl::sim {

using policy::Job;

int LiveJobs::gpus_in_use(int job) const {
  const Job& it = state.jobs[job];
  return it.gpus() + progress_[trace_of_[job]].more * it.gpus_per_learner;
}

int LiveJobs::add_companion(const policy::Growth& growth) {
  const auto number = static_cast<int>(progress_.size());
  const int parent = trace_of_[growth.job];
  Job it = policy::companion_for(state, growth, ++last_id_);
  it.running = true;
  it.saves = false;
  it.start_s = it.checkpoint_s = state.now_s;
  for (const int node : growth.free) it.parts.push_back({node, 1});
  hold(it.parts, it.gpus_per_learner, +1);
  levels.running += it.gpus();
  live_.push_back(static_cast<int>(state.jobs.size()));
  state.jobs.push_back(std::move(it));
  trace_of_.push_back(number);
  limit_s.push_back(0);
  progress_.emplace_back().attempt = 1;
  companions_.push_back({parent, growth.learners, false});
  progress_[parent].companions.push_back(number);
  return number;
}

int64_t LiveJobs::join(int companion) {
  Companion& its = companions_[companion - trace_.jobs.size()];
  const Job& nodes = state.jobs[live_[companion]];
  // Until its agents had come, it was of no use.
  recorder_.counts.lost_gpu_h += static_cast<double>(state.now_s - nodes.start_s) * nodes.gpus() / 3600;
  const int job = live_[its.parent];
  settle(job, trained_s(job));
  its.used = true;
  progress_[its.parent].more += its.learners;
  return go_on(job);
}

int64_t LiveJobs::leave(int companion, bool saves) {
  const Companion its = companions_[companion - trace_.jobs.size()];
  const int job = live_[its.parent];
  if (its.used) settle(job, saves ? trained_s(job) : saved_s(job));
  drop_companion(companion);
  return its.used ? go_on(live_[its.parent]) : -1;
}

void LiveJobs::find_grown(std::vector<policy::Grown>* grown, std::vector<policy::JobSpeeds>* speeds) const {
  grown->clear();
  speeds->clear();
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    const Progress& progress = progress_[trace_of_[i]];
    if (progress.companions.empty()) continue;
    policy::Grown one{static_cast<int>(i), {}};
    for (const int companion : progress.companions)
      if (companions_[companion - trace_.jobs.size()].used) one.companions.push_back(live_[companion]);
    if (one.companions.size() != progress.companions.size()) continue;
    set_speeds(one.job, &speeds->emplace_back());
    grown->push_back(std::move(one));
  }
}

void LiveJobs::drop_companion(int companion) {
  const Companion& its = companions_[companion - trace_.jobs.size()];
  Progress& parent = progress_[its.parent];
  parent.companions.erase(std::find(parent.companions.begin(), parent.companions.end(), companion));
  if (its.used) parent.more -= its.learners;
  const int job = live_[companion];
  const Job& it = state.jobs[job];
  recorder_.jobs[its.parent].held_gpu_s += static_cast<double>(state.now_s - it.start_s) * it.gpus();
  levels.running -= it.gpus();
  hold(it.parts, it.gpus_per_learner, -1);
  ++progress_[companion].attempt;
  remove(job);
}

}  // namespace dl::sim
