// SPDX-License-Identifier: Apache-2.0
// Which GPUs and which batch size does each elastic job get? The question, as plain data: jobs with the speeds that
// they reach at each size, and how many GPUs there are, in all and for each tenant. Pure; nothing here knows Slurm.
//
// The model is that of "Effective Elastic Scaling of Deep Learning Workloads" (MASCOTS 2020): the sum of the jobs'
// speed-ups is made as large as possible, each job that is admitted getting at least its smallest size. Beyond the
// paper: several types of GPU, limits of tenants, and what a change costs a job that runs (as in Pollux, OSDI 2021).
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"

namespace dl::policy::elastic {

// What check() lets pass, so that no sum here overflows.
constexpr int kMostTypes = 64;
constexpr int kMostPointsOfJob = 4096;
constexpr int kMostShares = 100'000;
constexpr int kDeepest = 64;  // shares in one another
constexpr int kMostGpusOfPoint = 1'000'000;
constexpr double kMostValue = 1e12;  // of a speed, a weight, a time

constexpr int kNothing = -1;  // no point: the job waits; no parent

// One size at which a job can train.
struct Point {
  int type = 0;       // of GPU
  int gpus = 1;       // in all
  int nodes = 0;      // that the GPUs are on; 0: not known. Only reported in the answer
  int64_t batch = 0;  // global batch size; 0: not known. Of points with the same GPUs the fastest counts
  double speed = 1;   // samples a second, or goodput (samples a second x statistical efficiency); > 0, any unit
};

// What is made as large as possible: a sum over the jobs (value.h).
enum class Objective {
  // Speed-ups, as in the paper. Which jobs wait is decided before, by their order.
  kSpeedUp,
  // Jobs completed per second. Those that end soon come first and get more, as is best for the mean time until
  // completion; which jobs wait is part of the choice.
  kCompletion,
};

struct Job {
  int share = 0;
  double weight = 1;          // of its speed-up; > 0
  std::vector<Point> points;  // at least one; in any order, and not necessarily rising or concave
  int now = kNothing;         // of a running job: the point that it runs at
  double age_s = 0;           // since it began first
  double restart_s = 0;       // what a change costs it: saving, waiting, loading
  int restarts = 0;           // changes so far
  // For kCompletion (value.h).
  double left_s = 0;    // what its work would still take at its smallest size; 0: not known
  double waited_s = 0;  // from its submission until it started first, or until now
};

// A tenant, a department, or the whole cluster: what its jobs, and those of shares below it, hold together at most.
struct Share {
  int parent = kNothing;  // an earlier share
  std::vector<int> gpus;  // of each type
};

struct Problem {
  Objective objective = Objective::kSpeedUp;
  int types = 1;
  std::vector<Share> shares;
  std::vector<Job> jobs;      // those that wait: in the order in which they are to be admitted
  double least_gain = 0.05;   // a running job is changed only for a gain of more than this part of its speed
  double gap = 0.001;         // a solution is good enough if no other can be better by more than this part
  int64_t work = 40'000'000;  // steps that the exact search may take; if it needs more, the greedy solution stands
};

struct Allocation {
  std::vector<int> points;  // by job: index of its point, or kNothing
  double value = 0;         // sum of what the jobs are worth there (value.h)
  double bound = 0;         // no allocation that admits the same jobs (with kCompletion: any jobs) has a greater value
  bool exact = false;       // `value` is the optimum: found by the exact search, or equal to the bound
  bool kept = false;        // no running job is changed, since any change would cost more than it brings
};

// kInvalid with one sentence if an index is out of range, or a number is not finite, not positive, or too large.
Status check(const Problem& problem);

// Precondition: check(problem) holds. Running jobs are admitted first, then those that wait, in order, as long as the
// smallest sizes of all fit; one that does not fit lets later ones pass. A running job gets kNothing only if the limits
// do not even hold the smallest sizes of the jobs that run, on the types that they run on.
// With kCompletion, all running jobs keep at least their smallest sizes; a job that waits starts if that is worth more
// than what the others would get.
// The value is never less than that of admitting the same jobs and leaving all running ones as they are. Asked again
// after its answer was carried out, with all else equal, it gives the same answer.
Allocation optimise(const Problem& problem);

}  // namespace dl::policy::elastic
