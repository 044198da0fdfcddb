// SPDX-License-Identifier: Apache-2.0
// What placement does over the load of a cluster: generated traces, replayed on clusters of several shapes under
// policies that differ in where they place jobs alone.
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
  int64_t jobs = 0;     // of all seeds
  Interval long_waits;  // part of the jobs that wait longer than 15 minutes
  Interval wait_s;
  double used = 0;  // part of the GPUs
};

// Of two policies on the same cluster at the same load: how many times as many jobs wait long under the second. 0: none
// does under the first, and some do under the second; 1: none does.
double times_as_many(const LoadRow& first, const LoadRow& second);

// One line for each row, the second policy's with its ratio to the first. Ends with a newline.
std::string load_table(const std::vector<LoadRow>& rows, double level);
std::string load_json(const std::vector<LoadRow>& rows, double level);
// A panel for each cluster, a line for each policy, with a band of what it lies between.
std::string load_svg(const std::vector<LoadRow>& rows, const std::string& title);

}  // namespace dl::sim
