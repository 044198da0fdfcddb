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
//
// With a `curve` its points are the speeds, and nothing is computed.
struct Speed {
  int64_t batch = 0;
  double samples_s = 0;  // 0: the size cannot be used
};
struct CurvePoint {
  int gpus = 1;
  Speed speed;
};
struct Category {
  std::string name;
  double step_s = 0;
  double sample_s = 0;
  double talk_s = 0;
  double node_talk_s = 0;
  int64_t batch = 0;       // the global batch size that the user chose
  int64_t most_batch = 0;  // the largest batch that keeps accuracy; if it equals `batch`, the batch cannot vary
  int most_gpus = 0;
  double part = 0;  // its share of all jobs
  std::vector<CurvePoint> curve = {};
  int asked = 0;  // GPUs that its users ask for; 0: as workload.cpp draws them
};
const std::vector<Category>& categories();
// Reads "all" or names separated by commas; the error kInvalid names what is allowed.
Result<std::vector<Category>> parse_categories(const std::string& text);

// The speed on each number of GPUs, with the batch that is fastest there; the index is the number, and index 0 is not
// used. With `vary` the user's batch and its doublings up to most_batch are tried (of a curve, all its batches),
// without it only the user's.
std::vector<Speed> speeds(const Category& category, int gpus_per_node, bool vary);

struct ElasticJob {
  double submit_s = 0;
  int category = 0;  // index into those of the workload
  int asked = 1;     // GPUs that the user asks for where sizes are fixed; his batch can be used on them
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
