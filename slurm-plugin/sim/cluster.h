// SPDX-License-Identifier: Apache-2.0
// The cluster that a trace is replayed on: nodes, and tenants with their quotas.
#pragma once

#include <string_view>

#include "slurm-plugin/policy/cluster_state.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

// Types and nodes of "TYPE=COUNTxGPUS[,...]": "a100=50x8" are 50 nodes of 8 GPUs each. `per_switch` nodes of a type
// after one another share a leaf switch. No tenants. kInvalid "'x' ...; allowed: ...".
Result<policy::ClusterState> parse_nodes(std::string_view text, int per_switch);

// Adds a tenant for each name that the state lacks. Equal parts of the GPUs of each type are theirs; what does not
// divide is nobody's. With tenants that are there already they own nothing, and may only borrow.
void add_tenants(const std::vector<std::string>& names, policy::ClusterState* state);

int gpus_in_all(const policy::ClusterState& state);

}  // namespace dl::sim
