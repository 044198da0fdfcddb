// SPDX-License-Identifier: Apache-2.0
// The jobs that are submitted and have not ended, as the policy sees them, with what the policy does not see: how much
// work they have left. Starting, pausing and ending them keeps the counts of GPUs right.
#pragma once

#include <vector>

#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/sim/engine/recorder.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

class LiveJobs {
 public:
  // `cluster` without jobs; everything must outlive this. Every job of the trace names a type and a tenant of it.
  LiveJobs(const Trace& trace, policy::ClusterState cluster, Recorder* recorder);

  // Its jobs: first those that wait, oldest first, then those that run, in no order. Starting, pausing and ending a job
  // changes the indexes of others.
  policy::ClusterState state;
  std::vector<int64_t> limit_s;  // by job of the state: as View::limit_s
  Levels levels;

  int waiting() const { return waiting_; }
  int trace_of(int job) const { return trace_of_[job]; }  // index into the trace's jobs
  // Index into the state's jobs; -1: not submitted yet, or ended.
  int live(int in_trace) const { return live_[in_trace]; }
  // Of a waiting job: is there an older waiting one that asks for the same, with no longer a limit, and has no promise?
  bool older_like_it_waits(int job) const;
  // A number that changes whenever the job starts, stops or shrinks: events meant for another number are void.
  int64_t attempt(int in_trace) const { return progress_[in_trace].attempt; }

  // Advances virtual time to now_s: records the levels, updates the tenants' decayed use and the jobs' checkpoints.
  void advance(int64_t now_s);

  void submit(int in_trace, policy::Job job);
  // Starts the job on its `parts`, which hold their GPUs from now on. Returns when it will end unless it is paused.
  int64_t start(int job, std::vector<policy::Part> parts, policy::Charge charge, int own_part = 0);
  // Holds GPUs for one learner of a job that does not run yet; start_held() starts it once all its learners have some.
  void hold(int job, int node);
  int64_t start_held(int job);
  // A job that holds GPUs and does not run gives them back, and goes to the end of the queue.
  void let_go(int job);
  // Sets a running job back to its last checkpoint. If it keeps learners it goes on with them, and the time is returned
  // at which it will end; else it goes back into the queue, and -1 is returned.
  int64_t pause(int job, int learners_left);
  void end(int job);
  // The node fails, or is repaired. No job may hold GPUs of it.
  void set_usable(int node, bool usable);

 private:
  struct Progress {
    int64_t work_left = 0;   // learner-seconds
    int64_t overhead_s = 0;  // at the beginning of this attempt
    int64_t attempt = 0;
    int64_t min_run_s = 0;  // of an attempt that starts from the queue
  };
  void hold(const std::vector<policy::Part>& parts, int gpus_per_learner, int sign);
  int64_t run(int job);
  int64_t trained_s(int job) const;  // in this attempt
  int64_t saved_s(int job) const;    // the part of that which is in a checkpoint
  // Both move the job within the state's jobs and return its new index.
  int into_queue(int job);    // to its place by age
  int out_of_queue(int job);  // to the first place after the queue
  void swap_places(int a, int b);
  void move_place(int from, int to);  // those between make room

  const Trace& trace_;
  Recorder& recorder_;
  std::vector<Progress> progress_;  // by job of the trace
  std::vector<int> live_;
  std::vector<int> trace_of_;
  std::vector<int> kind_;         // by job of the trace: those that ask for the same have the same number
  std::vector<int> free_;         // by node
  std::vector<int> largest_;      // by type: GPUs of the largest learner that may use it
  std::vector<double> borrowed_;  // by tenant: used by advance(), kept only to save allocations
  int waiting_ = 0;               // jobs that wait
};

}  // namespace dl::sim
