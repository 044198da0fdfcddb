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

// The part of a site's configuration that dlsim uses.
struct Site {
  policy::ClusterState cluster;  // types, tenants, nodes if [nodes.counts] gives them, half_life_s, patience_s
  int64_t min_run_s = 600;       // [quota] min_run

  Site() { cluster.patience_s = 3600; }
};
// Reads dl.toml, which must exist. Errors as those of load_site_config().
Result<Site> read_site(const std::string& path);

// Replaces the nodes by those of "TYPE=COUNTxGPUS[,...]": "a100=50x8" means 50 nodes of 8 GPUs each. Types that the
// state does not know are added to it. kInvalid "'x' ...; allowed: ...".
Status set_nodes(std::string_view text, policy::ClusterState* state);
// Gives each `nodes` successive nodes of one type a leaf switch of their own.
void set_switches(int nodes, policy::ClusterState* state);

// For a state without tenants: adds a tenant for each name, with an equal part of the GPUs of each type as its quota;
// the remainder of the division belongs to nobody. A state with tenants is left as it is.
void add_tenants(const std::vector<std::string>& names, policy::ClusterState* state);

// Makes this part (0 to 1) of the nodes of each type unusable for the whole replay: the last ones; the number is
// rounded.
void set_unavailable(double part, policy::ClusterState* state);

// The cluster without limits: every tenant gets a quota of all GPUs.
policy::ClusterState without_quotas(policy::ClusterState cluster);

int gpus_in_all(const policy::ClusterState& state);

}  // namespace dl::sim
