// SPDX-License-Identifier: Apache-2.0
// The job's ranks over MPI: starts it if the program has not, checks it against the plan, and divides learners from
// servers. mpi_none.cpp stands in where there is no MPI at build time.
#pragma once

#include <memory>

#include "launcher/collectives/backend.h"
#include "launcher/collectives/channel.h"
#include "launcher/collectives/world.h"

namespace dl::learner {

struct MpiWorld {
  std::unique_ptr<Backend> group;    // the learners, or on a server the servers
  std::unique_ptr<Channel> channel;  // all ranks of the job, point to point; null without servers
  int servers = 0;
  bool server = false;
};

// True if the program (or an earlier context) has started MPI; kBusy if it was finalised already.
Result<bool> mpi_running();
Result<MpiWorld> open_mpi_world(const WorldPlan& plan);
// After everything of the world was destroyed. Finalises MPI with the last context, if we started it; broken: peers are
// gone, MPI_Finalize would wait for them.
void close_mpi_world(bool broken);
// The MPI library in use, in its own words; "none" in a build without. Static.
const char* mpi_version();

}  // namespace dl::learner
