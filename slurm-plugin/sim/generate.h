// SPDX-License-Identifier: Apache-2.0
// Makes traces. They follow the published figures on the use of FfDL where there are any
// (NIPS 2017 workshop paper, section 5.2: learners of 1, 2 and more GPUs, jobs of a single learner). What those figures
// leave open (durations, times of day, tenants) is assumed; generate.cpp says so beside each number.
#pragma once

#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

struct Shape {
  uint64_t seed = 1;   // the same seed, the same trace, on any machine
  double days = 60;    // duration of the submissions
  double load = 0.85;  // GPU-time that the jobs ask for, as a part of the GPU-time of the cluster during these days
  // Number of tenants if the cluster has none; t1 asks for most.
  int tenants = 6;
  // Shares of the jobs that ask for these tiers, together at most 1; the others have tier auto.
  double guaranteed = 0;
  double borrow = 0;
  double serial = 0;  // TraceJob::serial of elastic jobs
};

// Jobs for the nodes, types and tenants of the cluster, at least one. No job is larger than the cluster.
Trace generate(const Shape& shape, const policy::ClusterState& cluster);

}  // namespace dl::sim
