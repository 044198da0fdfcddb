// SPDX-License-Identifier: Apache-2.0
// Counts the GPUs that a submission may get, whichever options it uses to ask for them. Pure. The count is never too
// low: if Slurm could give more than can be known beforehand, the result is an error that names the missing option.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/job_submit/shape.h"

namespace dl {

struct GpuCount {
  int64_t least = 0;  // GPUs in total; less than `most` if the number of nodes is a range
  int64_t most = 0;
  int64_t per_learner = 1;  // this many have to be together on one node
  int64_t per_node = 0;     // if they were requested per node, else 0
  std::string type;         // empty: no type was given
  // the count holds only if the job gets exactly this number of nodes; 0: it holds for any number
  int64_t pinned_nodes = 0;

  bool none() const { return most == 0; }
};

// The rule for counting GPUs that differs between versions of Slurm. slurm_abi.h has the rule of the running version.
struct GpuRule {
  // Concerns jobs with --ntasks, --ntasks-per-node and --gpus-per-task. False: Slurm fills each node up to
  // --ntasks-per-node and gives GPUs to all these tasks: -n5 -N2 --ntasks-per-node=3 gets six. True: Slurm gives GPUs
  // to --ntasks tasks, of which at most --ntasks-per-node are on one node: five. Even then more are counted if Slurm
  // may use the CPUs that come with a task (the rest of a core, or of a GPU's share of CPUs) for further tasks.
  bool ntasks_is_the_number = false;
};

// kInvalid: the request cannot be parsed. kConflict: it asks for GPUs of several types, or Slurm would choose their
// number. kUnsupported: it asks for parts of GPUs.
Result<GpuCount> count_gpus(const Submission& given, const SiteConfig& site, const GpuRule& rule);

// The most GPUs that a node has, of this type or, if it is empty, of any; 0: dl.toml does not say.
int64_t largest_node(const SiteConfig& site, const std::string& type);

// What a list of GRES gives each GPU: "gres:gpu:4" -> 4, of CPUs or of MiB; the largest number if it names several.
// One that is not a plain number (Slurm reads units: 4K) is taken for 2^32. None if the list does not name GPUs.
std::optional<int64_t> count_of_gpu(const std::string& tres);

// True if a list of GRES in Slurm's form ("gres:gpu:a100:2,gres/lustre:1") asks for GPUs.
bool asks_for_gpus(const std::string& tres);

// The GRES text in which each request for GPUs without a type gets the type `type`: "gres:gpu:2" -> "gres:gpu:a100:2".
std::string with_gpu_type(const std::string& tres, const std::string& type);

}  // namespace dl
