// SPDX-License-Identifier: Apache-2.0
// Confidence intervals for the means of a comparison. Jobs that are submitted together wait together, so they are not
// independent samples. Therefore whole pieces of time are drawn again, with all their jobs (a block bootstrap). The
// same pieces are drawn for every policy, so that differences between days do not count as differences between
// policies.
#pragma once

#include <vector>

#include "slurm-plugin/sim/engine/outcome.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};

struct Confidence {
  bool known = false;  // false: too few pieces of time have jobs, so the intervals mean nothing
  Interval wait_s;
  Interval jct_s;
  Interval long_waits;       // part of the jobs that wait long
  Interval wait_less_first;  // mean wait minus that of the first policy
};

// One result for each policy. `policies` holds, for each policy, its outcomes for one or several seeds. `level` is for
// example 0.95.
std::vector<Confidence> confidence_of(const Trace& trace, const std::vector<std::vector<const Outcome*>>& policies,
                                      double level);

// The mean of a few values, for example one for each seed, and its confidence interval (bootstrap).
Interval interval_of_means(const std::vector<double>& values, double level);

}  // namespace dl::sim
