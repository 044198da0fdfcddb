// SPDX-License-Identifier: Apache-2.0
// Finds rank and size of this process from its environment. Pure; it decides before MPI is used.
#pragma once

#include <functional>

#include "common/base/result.h"
#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {

// Returns the value of a variable; nullptr: not set.
using Environment = std::function<const char*(const char* name)>;

struct WorldPlan {
  bool told = false;     // DL_RANK and DL_WORLD_SIZE were set: rank and size are from them
  bool use_mpi = false;  // false: a world of one, without MPI
  int rank = 0;
  int size = 1;
  int servers = 0;  // the last `servers` ranks are parameter servers
  double timeout_s = 600;
};

// Reads DL_RANK, DL_WORLD_SIZE, DL_SERVERS, and the variables that mpirun, PMI and PMIx set. mpi_running: the program
// has started MPI itself. kInvalid: a bad option or variable. kConflict: Slurm started several tasks, but without MPI
// and dlrun's variables, so each would train alone.
Result<WorldPlan> plan_world(const dllearner_options* options, const Environment& environment, bool mpi_running);

// Compares MPI's rank and size with the plan. kConflict: they differ, and the text says how to start the program.
// kInvalid: more servers than MPI has ranks for.
Status check_world(const WorldPlan& plan, int mpi_rank, int mpi_size);

}  // namespace dl::learner
