// SPDX-License-Identifier: Apache-2.0
// Counts the GPUs that a submission may get, with whichever options it asks for them. Pure. The count is never too low:
// where Slurm could give more than can be known beforehand, the result is an error that names the missing option.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/job_submit/shape.h"

namespace dl {

struct GpuCount {
  int64_t least = 0;  // GPUs in all; fewer than `most` where the number of nodes is a range
  int64_t most = 0;
  int64_t per_learner = 1;   // so many have to be on one node together
  int64_t per_node = 0;      // if they were requested per node, else 0
  std::string type;          // empty: not given
  int64_t pinned_nodes = 0;  // the count holds only if the job gets this number of nodes; 0: whatever it gets

  bool none() const { return most == 0; }
};

// What differs between versions of Slurm in the number of GPUs for a request. slurm_abi.h knows the running version's
// rule.
struct GpuRule {
  // A job with --ntasks, --ntasks-per-node and --gpus-per-task. False: Slurm fills each node up to --ntasks-per-node,
  // and gives GPUs to all these tasks: -n5 -N2 --ntasks-per-node=3 gets six. True: it gives GPUs to --ntasks tasks, of
  // which at most --ntasks-per-node are on one node: five. Then more are counted only where Slurm may take the CPUs
  // that come with a task (the rest of a core, of a GPU's share of CPUs) for further tasks.
  bool ntasks_is_the_number = false;
};

// kInvalid: a request that cannot be read. kConflict: GPUs of several types, or a number that Slurm would choose.
// kUnsupported: parts of GPUs.
Result<GpuCount> count_gpus(const Submission& given, const SiteConfig& site, const GpuRule& rule);

// True if a list of GRES as Slurm writes it ("gres:gpu:a100:2,gres/lustre:1") asks for GPUs.
bool asks_for_gpus(const std::string& tres);

// The GRES text with TYPE put into each request for GPUs without one: "gres:gpu:2" -> "gres:gpu:a100:2".
std::string with_gpu_type(const std::string& tres, const std::string& type);

}  // namespace dl
