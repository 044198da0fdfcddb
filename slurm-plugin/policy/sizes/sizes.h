// SPDX-License-Identifier: Apache-2.0
// Chooses the size and the batch of each elastic job, once decide() has said which jobs run. The optimiser
// (policy/elastic) proposes them, within what the policy allows:
//
// 1. decide() decides as always. Its starts, moves and reclaims stay as they are; only elastic jobs that it starts may
//    get another size.
// 2. A tenant divides what it holds then: the GPUs of its elastic jobs that run or start, for which speeds are known.
//    It may make them smaller, larger, and start jobs of its own that wait, but it holds no more GPUs of any type than
//    before. So what others own, borrow or lend is not touched.
// 3. Beyond that, running jobs grow only on GPUs of a type that nobody waits for: these go GPU by GPU to the tenant
//    whose turn it is by fair share, within quota, borrowing limit and what others lend.
//
// Only jobs of tier auto that may be paused now take part, and none of a tenant for whose claim others leave. Where no
// elastic job with known speeds runs or starts, as where MIN = MAX everywhere, the answer is that of decide(), to the
// last node.
//
// GPUs that a job gives up for another of its tenant are free only after it has saved. Until then the caller has to
// show both jobs with their new parts in the states that it passes.
#pragma once

#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/elastic/problem.h"

namespace dl::policy {

// A speed at one size.
struct SizeSpeed {
  int type = 0;
  int learners = 1;
  int nodes = 1;      // number of nodes; for a number that is not listed, the next larger one counts
  int64_t batch = 0;  // global; 0: not known
  double speed = 1;   // samples a second, or goodput; any unit that is the same for all sizes of the job
};

// What is known of one job of the state that runs or waits.
struct JobSpeeds {
  int job = 0;  // index into the state's jobs
  std::vector<SizeSpeed> speeds;
  int64_t batch = 0;  // the batch with which it trains now
  double weight = 1;
  double age_s = 0;   // since it started first
  int restarts = 0;   // changes of size so far
  double left_s = 0;  // elastic::Job::left_s
  // Learners for which its own ones vote, by which the speeds were made; 0: they were measured. For why_size() alone.
  int wanted = 0;
};

struct SizeOptions {
  elastic::Objective objective = elastic::Objective::kCompletion;
  double least_gain = 0.05;
  int64_t work = 40'000'000;
  // A running job keeps its size for so long after it started or was resized, and for kTimesCost times what a resize
  // costs it. 0: neither.
  int64_t each_s = 0;
};

// If SizeOptions::each_s is not 0, resizes cost a job at most 1 / kTimesCost of its time.
constexpr int64_t kTimesCost = 20;

// A job gets other parts, or another batch. A running job is resized. A waiting one starts on these parts, whether
// decide() had it start elsewhere or not at all.
struct Resize {
  int job = 0;
  int type = 0;
  std::vector<Part> parts;
  int64_t batch = 0;
  bool starts = false;
};

struct Sizes {
  Decision decision;            // decide()'s, without starts that are in `resizes`, and without their waiting
  std::vector<Resize> resizes;  // by job
};

// kInvalid with one sentence if an index or a number is out of range.
Status check(const ClusterState& state, const std::vector<JobSpeeds>& speeds);

// For how long a running job keeps its size from its start on, in seconds: its minimum run time, and
// SizeOptions::each_s.
int64_t rest_s(const ClusterState& state, const Job& job, const SizeOptions& options);

// Whether the optimiser has anything to choose: an elastic job with known speeds waits, or runs and may be resized now.
// False tells that decide_sizes() would answer as decide() does, at a small part of its cost.
bool any_size_is_open(const ClusterState& state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options);

// Precondition: check(state) and check(state, speeds) hold.
Sizes decide_sizes(const ClusterState& state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options);

}  // namespace dl::policy
