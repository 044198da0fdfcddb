// SPDX-License-Identifier: Apache-2.0
// Where this process stands among its peers, from its environment: a pure decision, before MPI is touched.
#pragma once

#include <functional>

#include "common/base/result.h"
#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {

// nullptr: not set.
using Environment = std::function<const char*(const char* name)>;

struct WorldPlan {
  bool told = false;     // DL_RANK and DL_WORLD_SIZE were there: rank and size are theirs
  bool use_mpi = false;  // false: a world of one, without MPI
  int rank = 0;
  int size = 1;
  int servers = 0;  // the last ranks
  double timeout_s = 600;
};

// Reads DL_RANK, DL_WORLD_SIZE, DL_SERVERS, and the marks that mpirun, PMI and PMIx leave; mpi_running: the program has
// started MPI itself. kConflict where Slurm started several tasks and nothing tells them of one another: each would
// train alone and believe to be the only one.
Result<WorldPlan> plan_world(const dllearner_options* options, const Environment& environment, bool mpi_running);

// What MPI says against the plan: kConflict with one sentence that says how to start the program.
Status check_world(const WorldPlan& plan, int mpi_rank, int mpi_size);

}  // namespace dl::learner
