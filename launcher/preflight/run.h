// SPDX-License-Identifier: Apache-2.0
// Runs dl-preflight on every node of the allocation and judges the reports. Blocks: about a second for the quick
// checks, about ten for the full ones.
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
  std::vector<plan::Node> nodes;  // the whole allocation, spare nodes included
  bool under_slurm = false;
  std::string job_dir;             // exists
  std::string program_folder;      // the folder of dl-preflight
  std::string mpi_plugin;          // srun --mpi=, for the links
  std::vector<std::string> scrub;  // variables to remove from srun's environment
};

struct Outcome {
  std::vector<NodeReport> reports;
  std::vector<LinkRate> links;
  std::optional<double> allreduce_bytes_per_s;  // bus bandwidth of an MPI all-reduce over all nodes, if measured
  std::vector<NcclGroup> nccl;                  // both rounds, and all nodes together; empty: no GPUs, or not measured
  std::vector<Finding> findings;
};
// kIo, kNotFound, kTimeout: the checks could not be made at all. A node that does not answer is a finding, not an
// error.
Result<Outcome> run_preflight(const RunInput& input);

// For a restart after a failure that a node may have caused: quick checks on all of input.nodes. If input.mode is
// kFull, also the full checks of a node, which are measured again on the suspects and may come from the cache on the
// others.
Result<Outcome> run_again(const RunInput& input, const std::vector<std::string>& suspects);

// For JOB_DIR/preflight.json.
std::string format_outcome(const Outcome& outcome);

}  // namespace dl::preflight
