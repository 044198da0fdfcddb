// SPDX-License-Identifier: Apache-2.0
// The jobs that are submitted and have not ended, as the policy sees them, and what the policy does not see: how much
// work they have left. Starting, pausing and ending jobs here keeps the counts of GPUs right.
#pragma once

#include <vector>

#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/policy/sizes/further.h"
#include "slurm-plugin/policy/sizes/sizes.h"
#include "slurm-plugin/sim/engine/recorder.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

class LiveJobs {
 public:
  // `cluster` has no jobs. The arguments must outlive this object. Every job of the trace names a type and a tenant of
  // the cluster.
  LiveJobs(const Trace& trace, policy::ClusterState cluster, Recorder* recorder);

  // The cluster and its jobs: first those that wait, oldest first, then those that run, in no order. Starting, pausing
  // and ending a job changes the indexes of others.
  policy::ClusterState state;
  std::vector<int64_t> limit_s;  // by job of the state; see View::limit_s
  Levels levels;

  int waiting() const { return waiting_; }
  int trace_of(int job) const { return trace_of_[job]; }  // index into the trace's jobs
  // Index into the state's jobs; -1: the job is not submitted yet, or has ended.
  int live(int in_trace) const { return live_[in_trace]; }
  // Whether an older waiting job asks for the same as this one, has no longer limit, and was promised nothing.
  bool older_like_it_waits(int job) const;
  // A number that changes whenever the job starts, stops or shrinks. An event that was made with another number is
  // void.
  int64_t attempt(int in_trace) const { return progress_[in_trace].attempt; }

  // Advances virtual time to now_s: records the levels, updates the tenants' decayed use and the jobs' checkpoints.
  void advance(int64_t now_s);

  void submit(int in_trace, policy::Job job);
  // Starts the job on its `parts`, which hold their GPUs from now on. Returns the time at which it will end unless it
  // is paused.
  int64_t start(int job, std::vector<policy::Part> parts, policy::Charge charge, int own_part = 0);
  // Holds GPUs for one learner of a job that does not run yet; start_held() starts it once all its learners have some.
  void hold(int job, int node);
  int64_t start_held(int job);
  // A job that holds GPUs and does not run gives them back, and goes to the end of the queue.
  void let_go(int job);
  // Sets a running job back to its last checkpoint. If it keeps learners, it goes on with them, and the result is the
  // time at which it will end. Otherwise it goes back into the queue, and the result is -1.
  int64_t pause(int job, int learners_left);
  // Saves, and goes on with other parts after the time of a restart and requeue_s; the free nodes must have room for
  // them. Returns the time at which it will end.
  int64_t resize(int job, std::vector<policy::Part> parts, int64_t requeue_s);
  // How fast the elastic jobs are that run or wait, at each of their sizes (the smallest ones, where there are more
  // than policy::check() allows); the first kMostWaiting of those that wait, and none that have companions.
  void find_speeds(std::vector<policy::JobSpeeds>* speeds) const;
  static constexpr int kMostWaiting = 100;
  void end(int job);  // and its companions
  // The node fails, or is repaired. No job may hold GPUs on it.
  void set_usable(int node, bool usable);

  // ---- companions (policy/sizes/in_place.h): jobs of the state that the trace does not have. Their numbers, which
  // trace_of() gives and live() and attempt() take, follow those of the jobs of the trace.
  bool is_companion(int number) const { return number >= static_cast<int>(trace_.jobs.size()); }
  int parent_of(int companion) const { return companions_[companion - trace_.jobs.size()].parent; }
  // A companion starts on the nodes of the growth, and holds them. Returns its number.
  int add_companion(const policy::Growth& growth);
  // The job saves, and goes on with this companion, too. Returns the time at which it will end.
  int64_t join(int companion);
  // A companion ends, and its job goes on without it: after it has saved, or from its last checkpoint. Returns the time
  // at which the job will end; -1: it did not use the companion yet, so that nothing changes for it.
  int64_t leave(int companion, bool saves);
  // The elastic jobs that use all of their companions; their speeds as find_speeds().
  void find_grown(std::vector<policy::Grown>* grown, std::vector<policy::JobSpeeds>* speeds) const;

 private:
  struct Progress {
    int64_t work_left = 0;   // in units of rate()
    int64_t overhead_s = 0;  // time without progress at the beginning of this attempt
    int64_t attempt = 0;
    int64_t min_run_s = 0;  // minimum run time of an attempt that starts from the queue
    int resizes = 0;
    std::vector<int> companions;  // their numbers
    int more = 0;                 // learners on those of them that it uses
  };
  struct Companion {
    int parent = 0;    // index into the trace's jobs
    int learners = 0;  // of the parent, that it has room for
    bool used = false;
  };
  void hold(const std::vector<policy::Part>& parts, int gpus_per_learner, int sign);
  int64_t run(int job, int64_t requeue_s = 0);
  // The attempt ends, or is interrupted: so many seconds of its training count.
  void settle(int job, int64_t kept_s);
  // The same attempt goes on after a restart, with the learners that it has now.
  int64_t go_on(int job, int64_t requeue_s = 0);
  void set_speeds(int job, policy::JobSpeeds* known) const;
  void drop_companion(int companion);
  void remove(int job);  // from the state
  // GPUs that the job trains on, those of its companions among them.
  int gpus_in_use(int job) const;
  int64_t rate_of(int job) const;    // work in a second with the learners that it has
  int64_t trained_s(int job) const;  // in this attempt
  int64_t saved_s(int job) const;    // the part of trained_s() that is in a checkpoint
  // Both functions move the job within the state's jobs and return its new index.
  int into_queue(int job);    // to its place by age
  int out_of_queue(int job);  // to the first place after the queue
  void swap_places(int a, int b);
  void move_place(int from, int to);  // the jobs in between move up

  const Trace& trace_;
  Recorder& recorder_;
  std::vector<Progress> progress_;  // by job of the trace, then by companion
  std::vector<Companion> companions_;
  int64_t last_id_ = 0;  // of all jobs
  std::vector<int> live_;
  std::vector<int> trace_of_;
  std::vector<int> kind_;         // by job of the trace: jobs that ask for the same have the same number
  std::vector<int> free_;         // free GPUs, by node
  std::vector<int> largest_;      // by type: GPUs of the largest learner that may use the type
  std::vector<double> borrowed_;  // by tenant: scratch space of advance(), kept to save allocations
  int waiting_ = 0;               // jobs that wait
};

}  // namespace dl::sim
