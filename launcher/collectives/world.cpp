// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/world.h"

#include <cmath>
#include <cstring>

#include "common/base/parse.h"
#include "common/contract/env_names.h"

namespace dl::learner {
namespace {

constexpr int kMaxRanks = 1 << 20;
constexpr const char* kHow =
    "start it as dlrun --framework dllearner, by srun --mpi=pmix, or by mpirun of the MPI that libdllearner was built "
    "with";

Result<int> whole(const Environment& environment, const char* name, int min, int max) {
  auto value = parse_int(environment(name), min, max);
  if (!value) return std::move(value).error().with_context(name);
  return static_cast<int>(*value);
}

Result<double> timeout_of(const dllearner_options* options) {
  if (options == nullptr || options->timeout_s == 0) return 600.0;
  if (options->timeout_s == DLLEARNER_NO_TIMEOUT) return 0.0;
  if (!std::isfinite(options->timeout_s) || options->timeout_s < 0)
    return Error{Errc::kInvalid, "timeout_s: " + std::to_string(options->timeout_s) +
                                     " is out of range; allowed: 0 (600 s), more, or DLLEARNER_NO_TIMEOUT"};
  return options->timeout_s;
}

Result<int> servers_of(const dllearner_options* options, const Environment& environment, int size) {
  int servers = options != nullptr ? options->servers : 0;
  // A range stands for an elastic pool, whose servers are no ranks of this world.
  const char* told = environment(env::kServers);
  if (servers == 0 && told != nullptr && std::strchr(told, ':') == nullptr) {
    DL_TRY_ASSIGN(servers, whole(environment, env::kServers, 0, kMaxRanks));
  }
  if (servers == -1) servers = 0;
  if (servers < 0 || servers >= size)
    return Error{Errc::kInvalid, "servers: " + std::to_string(servers) + " of " + std::to_string(size) +
                                     " ranks cannot be servers; allowed: -1, and 0 to " + std::to_string(size - 1)};
  return servers;
}

}  // namespace

Result<WorldPlan> plan_world(const dllearner_options* options, const Environment& environment, bool mpi_running) {
  if (options != nullptr && options->struct_size != sizeof(dllearner_options))
    return Error{Errc::kInvalid,
                 "struct_size: " + std::to_string(options->struct_size) +
                     " is not the size of dllearner_options; allowed: " + std::to_string(sizeof(dllearner_options))};
  WorldPlan plan;
  DL_TRY_ASSIGN(plan.timeout_s, timeout_of(options));
  const bool has_rank = environment(env::kRank) != nullptr;
  const bool has_size = environment(env::kWorldSize) != nullptr;
  if (has_rank != has_size)
    return Error{Errc::kInvalid,
                 "DL_RANK and DL_WORLD_SIZE: only one of them is set; allowed: both (dlrun does) or none"};
  if (has_size) {
    plan.told = true;
    DL_TRY_ASSIGN(plan.size, whole(environment, env::kWorldSize, 1, kMaxRanks));
    DL_TRY_ASSIGN(plan.rank, whole(environment, env::kRank, 0, plan.size - 1));
  }
  const bool launched = environment("PMIX_RANK") != nullptr || environment("PMI_RANK") != nullptr ||
                        environment("OMPI_COMM_WORLD_SIZE") != nullptr;
  plan.use_mpi = plan.told ? plan.size > 1 : mpi_running || launched;
  if (!plan.told && !plan.use_mpi && environment("SLURM_STEP_NUM_TASKS") != nullptr &&
      environment("SLURM_PROCID") != nullptr) {
    DL_TRY_ASSIGN(const int tasks, whole(environment, "SLURM_STEP_NUM_TASKS", 1, kMaxRanks));
    if (tasks > 1)
      return Error{Errc::kConflict, "this job step has " + std::to_string(tasks) +
                                        " tasks, but neither dlrun nor PMIx tells them of one another: " + kHow};
  }
  // Without dlrun only MPI knows the world's size, so check_world checks the number of servers later.
  if (plan.told || !plan.use_mpi) {
    DL_TRY_ASSIGN(plan.servers, servers_of(options, environment, plan.size));
  } else {
    DL_TRY_ASSIGN(plan.servers, servers_of(options, environment, kMaxRanks));
  }
  return plan;
}

Status check_world(const WorldPlan& plan, int mpi_rank, int mpi_size) {
  if (plan.told && plan.size != mpi_size)
    return Error{Errc::kConflict, "DL_WORLD_SIZE is " + std::to_string(plan.size) + ", but MPI_COMM_WORLD has " +
                                      std::to_string(mpi_size) +
                                      (mpi_size == 1 ? " rank, so MPI was not told of the others: "
                                                     : " ranks, so this is not the world that dlrun started: ") +
                                      kHow};
  if (plan.told && plan.rank != mpi_rank)
    return Error{Errc::kConflict, "DL_RANK is " + std::to_string(plan.rank) + ", but MPI numbers this process " +
                                      std::to_string(mpi_rank) + ": " + kHow};
  if (plan.servers >= mpi_size)
    return Error{Errc::kInvalid, "servers: " + std::to_string(plan.servers) + " of " + std::to_string(mpi_size) +
                                     " ranks cannot be servers; allowed: 0 to " + std::to_string(mpi_size - 1)};
  return {};
}

}  // namespace dl::learner
