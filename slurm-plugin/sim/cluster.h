// SPDX-License-Identifier: Apache-2.0
// The cluster that a trace is replayed on: nodes, and tenants with their quotas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

constexpr const char* kDefaultNodes = "a100=50x8";  // 400 GPUs

// What a site's configuration tells.
struct Site {
  policy::ClusterState cluster;  // types, tenants, nodes if it counts them, half_life_s, patience_s
  int64_t min_run_s = 600;       // [quota] min_run

  Site() { cluster.patience_s = 3600; }
};
// Reads dl.toml, which must be there. Errors as those of load_site_config().
Result<Site> read_site(const std::string& path);

// Nodes of "TYPE=COUNTxGPUS[,...]" instead of those that are there: "a100=50x8" are 50 nodes of 8 GPUs each. Types that
// the state does not know are added to it. kInvalid "'x' ...; allowed: ...".
Status set_nodes(std::string_view text, policy::ClusterState* state);
// So many nodes of a type after one another share a leaf switch.
void set_switches(int nodes, policy::ClusterState* state);

// For a state without tenants: a tenant for each name, with an equal part of the GPUs of each type as its own; what
// does not divide is nobody's. A state with tenants is left as it is.
void add_tenants(const std::vector<std::string>& names, policy::ClusterState* state);

// So large a part of the nodes of each type is down, or kept for others, all the time: the last of them, rounded.
void set_unavailable(double part, policy::ClusterState* state);

int gpus_in_all(const policy::ClusterState& state);

}  // namespace dl::sim
