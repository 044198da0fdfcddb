// SPDX-License-Identifier: Apache-2.0
// How placement changes waits over the load of a cluster: generated traces, replayed on clusters of several shapes
// under policies that differ only in where they place jobs.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/sim/report/confidence.h"

namespace dl::sim {

// One policy on one cluster at one load, over all seeds.
struct LoadRow {
  std::string nodes;
  double load = 0;
  std::string policy;
  int64_t jobs = 0;     // jobs of all seeds together
  Interval long_waits;  // part of the jobs that wait longer than 15 minutes
  Interval wait_s;
  double used = 0;  // part of the GPUs in use, 0 to 1
};

// For two policies on the same cluster at the same load: the part of jobs that wait long under the second, divided by
// that under the first. If none does under the first: 0 if some do under the second, 1 if none does.
double times_as_many(const LoadRow& first, const LoadRow& second);

// One line for each row, the second policy's with its ratio to the first. Ends with a newline.
std::string load_table(const std::vector<LoadRow>& rows, double level);
std::string load_json(const std::vector<LoadRow>& rows, double level);
// A panel for each cluster with a line for each policy, in a band that shows its confidence interval.
std::string load_svg(const std::vector<LoadRow>& rows, const std::string& title);

}  // namespace dl::sim
