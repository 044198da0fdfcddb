// SPDX-License-Identifier: Apache-2.0
// Made-up elastic jobs, after the experiment of "Effective Elastic Scaling of Deep Learning Workloads" (MASCOTS 2020):
// four categories, arrivals at random. The paper's own parameters are not published; those used here are assumed, and
// workload.cpp says beside each what it means.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::sim {

// How fast a job of a category trains: a train step of a batch of b samples on g GPUs takes
//     step_s + sample_s x b / g + (g > 1: talk_s x log2(g)) + (several nodes: node_talk_s)
// seconds, as in the paper's model of single-node run times plus the latency of communication.
struct Category {
  const char* name;
  double step_s;
  double sample_s;
  double talk_s;
  double node_talk_s;
  int64_t batch;       // the global batch size that the user chose
  int64_t most_batch;  // the largest batch that keeps accuracy; if it equals `batch`, the batch cannot vary
  int most_gpus;
  double part;  // its share of all jobs
};
const std::vector<Category>& categories();
// Reads "all" or names separated by commas; the error kInvalid names what is allowed.
Result<std::vector<Category>> parse_categories(const std::string& text);

struct Speed {
  int64_t batch = 0;
  double samples_s = 0;
};
// The speed on each number of GPUs, with the batch that is fastest there; the index is the number, and index 0 is not
// used. With `vary` the user's batch and its doublings up to most_batch are tried, without it only the user's.
std::vector<Speed> speeds(const Category& category, int gpus_per_node, bool vary);

struct ElasticJob {
  double submit_s = 0;
  int category = 0;  // index into those of the workload
  int asked = 1;     // GPUs that the user asks for where sizes are fixed
  double samples = 0;
};

struct Workload {
  uint64_t seed = 1;
  int gpus = 400;
  int gpus_per_node = 8;
  double hours = 8;  // duration of the submissions
  double load = 1;   // GPU-time that jobs ask for at the fixed sizes, as a part of the GPU-time that there is
  std::vector<Category> categories;
};

// Sorted by time of submission; at least one job.
std::vector<ElasticJob> jobs_of(const Workload& workload);

}  // namespace dl::sim
