// SPDX-License-Identifier: Apache-2.0
// How sure the means of a comparison are. Jobs that are submitted together wait together, so that they are no
// independent samples: pieces of time are drawn again, with all their jobs (a block bootstrap), and the same pieces for
// every policy, so that what differs between two of them is told apart from what differs between the days.
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
  bool known = false;  // there are enough pieces of time with jobs
  Interval wait_s;
  Interval jct_s;
  Interval long_waits;       // part of the jobs
  Interval wait_less_first;  // mean wait less that of the first policy
};

// One for each policy; of each, the outcomes of one seed or of several. `level`: 0.95.
std::vector<Confidence> confidence_of(const Trace& trace, const std::vector<std::vector<const Outcome*>>& policies,
                                      double level);

// Of a few values, say one for each seed: their mean, and where it would come to lie with other seeds.
Interval interval_of_means(const std::vector<double>& values, double level);

}  // namespace dl::sim
