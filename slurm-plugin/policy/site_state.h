// SPDX-License-Identifier: Apache-2.0
// The site's configuration as the policy sees it: GPU types, tenants and, where [nodes.counts] tells, nodes. Jobs and
// time are the caller's. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "common/site/site_config.h"
#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

// Types: all that [nodes.types], [nodes.counts], quotas and [quota.type_weights] name, sorted; "gpu", for GPUs without
// a type, if none is named. Tenants in the configuration's order. Nodes: named TYPE-1, TYPE-2, ..., of the size that
// [nodes.types] or gpus_per_node tells; if the number of nodes of a type with known size, or the size of a type whose
// number is known, is missing, there are no nodes and nodes_known is false.
ClusterState state_of(const SiteConfig& site);

// The index of the type with this name; kAnyType for an empty name. Nothing if the type is not known.
std::optional<int> type_index(const ClusterState& state, std::string_view name);
// The index of the tenant with this account, in upper or lower case. Nothing if no tenant has it.
std::optional<int> tenant_index(const ClusterState& state, std::string_view account);

}  // namespace dl::policy
