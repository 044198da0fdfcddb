// SPDX-License-Identifier: Apache-2.0
// What a replay found, by policy: plain numbers for the table, JSON and the plot. Times are seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dl::sim {

struct Times {
  int64_t count = 0;
  double mean = 0;
  double median = 0;
  double p95 = 0;
  double p99 = 0;
};
// Nearest rank; all 0 of no values.
Times times_of(std::vector<double> values);

struct TenantOutcome {
  std::string name;
  int64_t jobs = 0;
  int64_t completed = 0;
  Times queue;
  double gpu_hours = 0;  // held by its running jobs
};

// Jobs of one size, by the GPUs that they ask for at most.
struct SizeOutcome {
  std::string name;  // "3-4"
  int64_t jobs = 0;
  Times queue;
  int64_t waited_15m = 0;
};
// Index of the size, 0 to size_count() - 1.
size_t size_class(int64_t gpus);
size_t size_count();
const char* size_name(size_t index);

// A wait longer than this counts as long, as in FfDL's published figures.
constexpr double kLongWaitS = 15 * 60;

// Averages over pieces of time of equal length, from the first submission on.
struct Series {
  double bucket_s = 1;
  std::vector<double> utilisation;  // 0 to 1
  std::vector<double> queued;       // jobs
};

struct Outcome {
  std::string policy;
  int64_t jobs = 0;
  int64_t completed = 0;
  int64_t refused = 0;     // can never run under this policy
  int64_t unfinished = 0;  // neither completed nor refused when no more events came
  Times queue;             // from submission to the first start, of those that started
  int64_t waited_15m = 0;  // jobs that waited longer than 15 minutes for their first start, or never started
  Times jct;               // job completion time: from submission to the end, of those that completed
  double makespan_s = 0;   // from the first submission to the last end
  // Parts from 0 to 1, averaged until the last submission; until the last end if all were submitted at once.
  double utilisation = 0;    // of all GPUs: held by jobs that run
  double held_idle = 0;      // of all GPUs: held by learners that wait for others of their job
  double fragmentation = 0;  // of the free GPUs: those that the trace's largest learner cannot use
  int64_t stops = 0;         // how often a job yielded all its GPUs
  int64_t shrinks = 0;       // how often a job yielded some of them
  int64_t moves = 0;         // how often a job was charged anew, without a restart
  int64_t most_pauses = 0;   // the most stops, shrinks and failures of one job
  int64_t ping_pong = 0;     // how often a claimant took from a job that had taken from it
  double lost_gpu_h = 0;     // GPU-hours of work after the last checkpoint, and of restarts
  int64_t node_failures = 0;
  int64_t failed = 0;     // attempts of jobs that ended because a node failed
  int64_t deadlocks = 0;  // how often waiting jobs held GPUs that would together have let one of them start
  double deadlock_s = 0;
  int64_t withdrawn = 0;  // how often a job gave up its GPUs to end a deadlock
  int64_t decisions = 0;
  double solver_mean_ms = 0;
  double solver_max_ms = 0;
  double wall_s = 0;  // of the whole replay
  std::vector<TenantOutcome> tenants;
  std::vector<SizeOutcome> sizes;  // those of which there are jobs
  std::vector<double> waits;       // by job of the trace; -1: it never started
  std::vector<double> jcts;        // likewise, until the end
  Series series;
};

}  // namespace dl::sim
