// SPDX-License-Identifier: Apache-2.0
// Starts a program once on each node (without Slurm: on this machine) and collects the output. Blocks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/preflight/run.h"

namespace dl::preflight {

// The number of GPUs of each node; 0 if it differs between nodes or is unknown.
int gpus_of_each(const std::vector<plan::Node>& nodes);
std::vector<std::string> names_of(const std::vector<plan::Node>& nodes);

// Returns the standard output of all nodes, even if some wrote nothing or failed. Errors (kIo, kTimeout after `limit`)
// only if there is no output at all. A step that Slurm refuses is tried again (refused_step.h). mpi: for srun --mpi=;
// "none" for a program without MPI.
Result<std::string> run_on_nodes(const RunInput& input, const std::vector<plan::Node>& nodes, const std::string& mpi,
                                 const std::vector<std::string>& program, std::chrono::seconds limit);

}  // namespace dl::preflight
