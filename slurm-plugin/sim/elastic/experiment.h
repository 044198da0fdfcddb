// SPDX-License-Identifier: Apache-2.0
// Replays elastic jobs on a pool of GPUs in virtual time, under policies that choose sizes.
//
// A job makes progress in samples, at the speed of its size. A job that is resized makes no progress for restart_s,
// then goes on where it was (a resize saves first). The pool has no nodes: fragmentation is not modelled.
#pragma once

#include "slurm-plugin/sim/elastic/workload.h"

namespace dl::sim {

enum class ElasticPolicy {
  kFifo,        // each job gets the size that its user asked for, strictly in order
  kFixed,       // as kFifo, but smaller jobs may pass larger ones that do not fit
  kFixedBatch,  // the optimiser chooses GPUs, at the user's batch: the paper's baseline
  kElastic,     // the optimiser chooses GPUs and batch together, for the sum of speed-ups, as the paper does
  kCompletion,  // GPUs and batch for jobs completed per second
  kKnown,       // the same, and it is known how much work each job has left
  kPollux,      // GPUs and batch by Pollux's fitness (OSDI 2021, section 4.2, with p = -1)
};
struct ElasticPolicyRow {
  ElasticPolicy policy;
  const char* name;
  const char* summary;
};
const std::vector<ElasticPolicyRow>& elastic_policies();

struct Rules {
  bool drop = false;         // true: a job for which there is no room at its submission is dropped; false: it waits
  double restart_s = 30;     // the time that a resize costs
  double decide_s = 60;      // the least time between two decisions
  double least_gain = 0.05;  // policy::elastic::Problem::least_gain
};

struct ElasticOutcome {
  std::string policy;
  int64_t jobs = 0;
  int64_t completed = 0;  // jobs that ended while others were still submitted
  int64_t dropped = 0;
  // job completion time: from submission to the end, the mean over all jobs that were not dropped
  double mean_jct_s = 0;
  double p99_jct_s = 0;
  double mean_wait_s = 0;  // the mean time until the first start
  double utilisation = 0;  // part of the GPUs in use while jobs were submitted
  double resizes = 0;      // mean number per job
  double solver_mean_ms = 0, solver_max_ms = 0;
  double wall_s = 0;
};

ElasticOutcome replay(const Workload& workload, ElasticPolicy policy, const Rules& rules);

}  // namespace dl::sim
