// SPDX-License-Identifier: Apache-2.0
// Starting a program once on each node, or on this machine, and reading what all have written. Blocks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/preflight/run.h"

namespace dl::preflight {

// The GPUs of every node, or 0 where they are not the same or not known.
int gpus_of_each(const std::vector<plan::Node>& nodes);
std::vector<std::string> names_of(const std::vector<plan::Node>& nodes);

// What all have written to their standard output, also where some said nothing or failed. Errors: nothing was written,
// and why; a step that Slurm refuses for a moment is tried again (refused_step.h). mpi: srun --mpi=; "none" for a
// program that is not one of MPI's.
Result<std::string> run_on_nodes(const RunInput& input, const std::vector<plan::Node>& nodes, const std::string& mpi,
                                 const std::vector<std::string>& program, std::chrono::seconds limit);

}  // namespace dl::preflight
