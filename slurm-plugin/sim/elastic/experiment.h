// SPDX-License-Identifier: Apache-2.0
// Replays elastic jobs on a pool of GPUs in virtual time, under policies that choose sizes.
//
// A job makes progress in samples, at the speed of its size. A job that is resized makes no progress for restart_s,
// then goes on where it was (a resize saves first). The pool has no nodes: fragmentation is not modelled.
#pragma once

#include "slurm-plugin/sim/elastic/workload.h"

namespace dl::sim {

enum class ElasticPolicy {
  kFifo,        // each job gets what its user asked for, strictly in order
  kFixed,       // the same, but smaller jobs may pass larger ones that do not fit
  kFixedBatch,  // the optimiser chooses GPUs, at the user's batch: the paper's baseline
  kElastic,     // the optimiser chooses GPUs and batch together
};
struct ElasticPolicyRow {
  ElasticPolicy policy;
  const char* name;
  const char* summary;
};
const std::vector<ElasticPolicyRow>& elastic_policies();

struct Rules {
  bool drop = false;         // a job for which there is no room when it comes is dropped; else it waits
  double restart_s = 30;     // that a resize costs
  double decide_s = 60;      // the least time between two decisions
  double least_gain = 0.05;  // policy::elastic::Problem::least_gain
};

struct ElasticOutcome {
  std::string policy;
  int64_t jobs = 0;
  int64_t completed = 0;  // within the time of submissions
  int64_t dropped = 0;
  double mean_jct_s = 0;  // job completion time: from submission to the end, of all jobs that were not dropped
  double p99_jct_s = 0;
  double mean_wait_s = 0;  // until the first start
  double utilisation = 0;  // of the GPUs, while jobs were submitted
  double resizes = 0;      // for each job
  double solver_mean_ms = 0, solver_max_ms = 0;
  double wall_s = 0;
};

ElasticOutcome replay(const Workload& workload, ElasticPolicy policy, const Rules& rules);

}  // namespace dl::sim
