// SPDX-License-Identifier: Apache-2.0
// The job's ranks over MPI: starts MPI if the program has not, compares rank and size with the plan, and divides
// learners from servers. mpi_none.cpp replaces it in builds without MPI.
#pragma once

#include <memory>

#include "launcher/collectives/backend.h"
#include "launcher/collectives/channel.h"
#include "launcher/collectives/world.h"

namespace dl::learner {

struct MpiWorld {
  std::unique_ptr<Backend> group;    // of the learners; on a server: of the servers
  std::unique_ptr<Channel> channel;  // between all ranks of the job, point to point; nullptr without servers
  int servers = 0;
  bool server = false;
};

// True if the program (or an earlier context) has started MPI. kBusy if MPI was finalised already.
Result<bool> mpi_running();
Result<MpiWorld> open_mpi_world(const WorldPlan& plan);
// To be called after everything of the world was destroyed. The last call finalises MPI if this library started it.
// broken: ranks were lost, so MPI is not finalised, since MPI_Finalize would wait for them.
void close_mpi_world(bool broken);
// The version string of the MPI library in use; "none" in a build without MPI. Static.
const char* mpi_version();

}  // namespace dl::learner
