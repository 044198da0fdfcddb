// SPDX-License-Identifier: Apache-2.0
// dl-preflight on every node of the allocation, and what it all means. Blocks for as long as it takes: a second or so
// for the quick checks, some ten for the full ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/contract/request_values.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/preflight/judge.h"
#include "launcher/preflight/nccl_rounds.h"

namespace dl::preflight {

struct RunInput {
  PreflightMode mode = PreflightMode::kQuick;
  std::vector<plan::Node> nodes;  // all of the allocation, spare ones too
  bool under_slurm = false;
  std::string job_dir;             // exists
  std::string program_folder;      // where dl-preflight is
  std::string mpi_plugin;          // srun --mpi=, for the links
  std::vector<std::string> scrub;  // variables that srun must not see
};

struct Outcome {
  std::vector<NodeReport> reports;
  std::vector<LinkRate> links;
  std::optional<double> allreduce_bytes_per_s;  // bus bandwidth of an all-reduce over MPI of all nodes, if measured
  std::vector<NcclGroup> nccl;  // pairs, suspects with good nodes, and all together; empty: no GPUs, or not measured
  std::vector<Finding> findings;
};
// kIo, kNotFound, kTimeout: the checks could not be made at all.
Result<Outcome> run_preflight(const RunInput& input);

// Before the learners are started anew, after a failure that a node may be to blame for: the quick checks on all of
// input.nodes; where full ones were asked for, those too, on the suspects measured now and on the others as it was
// kept.
Result<Outcome> run_again(const RunInput& input, const std::vector<std::string>& suspects);

// For JOB_DIR/preflight.json.
std::string format_outcome(const Outcome& outcome);

}  // namespace dl::preflight
