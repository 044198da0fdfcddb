// SPDX-License-Identifier: Apache-2.0
// Small traces and clusters for the tests of dlsim.
#pragma once

#include <string>

#include "slurm-plugin/sim/engine/engine.h"
#include "slurm-plugin/sim/world/cluster.h"

namespace dl::sim::testing {

inline Trace trace_of(const std::string& lines) {
  auto trace = parse_trace("id,submit,tenant,gpus,learners,run,checkpoint,restart,tier\n" + lines, "trace");
  return trace ? *trace : Trace{};
}

inline policy::ClusterState cluster_of(const std::string& nodes, int per_switch = 4) {
  policy::ClusterState state;
  if (!set_nodes(nodes, &state)) state.nodes.clear();
  set_switches(per_switch, &state);
  return state;
}

// Nodes, and tenants "a" and "b" with so many GPUs each.
inline Scenario scenario_of(const std::string& nodes, int quota_a, int quota_b) {
  Scenario scenario;
  scenario.cluster = cluster_of(nodes);
  for (const auto& [name, quota] : {std::pair{"a", quota_a}, std::pair{"b", quota_b}}) {
    policy::Tenant tenant;
    tenant.name = name;
    tenant.quota.any = quota;
    scenario.cluster.tenants.push_back(tenant);
  }
  scenario.min_run_s = 0;
  scenario.yield_s = 10;
  return scenario;
}

inline Outcome replayed(const Trace& trace, const char* policy, const Scenario& scenario, const Hooks& hooks = {}) {
  auto outcome = replay(trace, *find_sim_policy(policy), scenario, hooks);
  return outcome ? *outcome : Outcome{};
}

}  // namespace dl::sim::testing
