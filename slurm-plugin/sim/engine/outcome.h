// SPDX-License-Identifier: Apache-2.0
// The results of a replay under one policy: plain numbers for the table, JSON and the plot. Times are in seconds.
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
// By the nearest-rank method; all 0 if there are no values.
Times times_of(std::vector<double> values);

struct TenantOutcome {
  std::string name;
  int64_t jobs = 0;
  int64_t completed = 0;
  Times queue;
  double gpu_hours = 0;  // GPU-hours that its running jobs held
};

// Jobs of one size, where the size is the largest number of GPUs that a job asks for.
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

// Averages over equal pieces of time, from the first submission on.
struct Series {
  double bucket_s = 1;
  std::vector<double> utilisation;  // 0 to 1
  std::vector<double> queued;       // number of jobs
};

struct Outcome {
  std::string policy;
  int64_t jobs = 0;
  int64_t completed = 0;
  int64_t refused = 0;     // jobs that can never run under this policy
  int64_t unfinished = 0;  // jobs that were neither completed nor refused when no more events came
  Times queue;             // from submission to the first start, for jobs that started
  int64_t waited_15m = 0;  // jobs that waited longer than 15 minutes for their first start, or never started
  Times jct;               // job completion time: from submission to the end, for jobs that completed
  double makespan_s = 0;   // from the first submission to the last end
  // Parts from 0 to 1, averaged until the last submission, or until the last end if all jobs were submitted at once.
  double utilisation = 0;    // of all GPUs: those that running jobs hold
  double held_idle = 0;      // of all GPUs: those that learners hold while they wait for others of their job
  double fragmentation = 0;  // of the free GPUs: those that the trace's largest learner cannot use
  int64_t stops = 0;         // how often a job yielded all its GPUs
  int64_t shrinks = 0;       // how often a job yielded some of them
  int64_t resizes = 0;       // how often a running job was resized for the sake of speed
  int64_t grown = 0;         // how often a job got a companion: whole nodes beside those that it had
  int64_t given_back = 0;    // how often a companion yielded
  int64_t moves = 0;         // how often a job got another charge, without a restart
  int64_t most_pauses = 0;   // the most stops, shrinks and failures of one job
  int64_t ping_pong = 0;     // how often a job took GPUs from a job that had taken from it before
  double lost_gpu_h = 0;     // GPU-hours of work that was lost after the last checkpoint, and of restarts
  int64_t node_failures = 0;
  int64_t failed = 0;     // attempts of jobs that ended because a node failed
  int64_t deadlocks = 0;  // how often waiting jobs held GPUs that together would have let one of them start
  double deadlock_s = 0;
  int64_t withdrawn = 0;  // how often a job gave up its GPUs to end a deadlock
  int64_t decisions = 0;
  double solver_mean_ms = 0;
  double solver_max_ms = 0;
  double wall_s = 0;  // duration of the whole replay
  std::vector<TenantOutcome> tenants;
  std::vector<SizeOutcome> sizes;  // sizes for which there are jobs
  std::vector<double> waits;       // by job of the trace; -1: it never started
  std::vector<double> jcts;        // by job of the trace: time until its end; -1: it did not end
  Series series;
};

}  // namespace dl::sim
