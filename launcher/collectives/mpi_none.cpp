// SPDX-License-Identifier: Apache-2.0
// Replaces the MPI functions in a build without MPI. Only a world of one rank works then.
#include "launcher/collectives/mpi_world.h"

namespace dl::learner {

Result<bool> mpi_running() {
  return false;
}
Result<MpiWorld> open_mpi_world(const WorldPlan& plan) {
  return Error{Errc::kUnsupported,
               "this libdllearner was built without MPI and knows a world of one rank alone, but the "
               "world has " +
                   (plan.told ? std::to_string(plan.size) + " ranks" : std::string("more"))};
}
void close_mpi_world(bool /*broken*/) {}
const char* mpi_version() {
  return "none";
}

}  // namespace dl::learner
