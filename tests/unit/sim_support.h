// SPDX-License-Identifier: Apache-2.0
// Small traces and clusters for the tests of dlsim.
#pragma once

#include <string>

#include "slurm-plugin/sim/cluster.h"
#include "slurm-plugin/sim/engine/engine.h"

namespace dl::sim::testing {

inline Trace trace_of(const std::string& lines) {
  auto trace = parse_trace("id,submit,tenant,gpus,learners,run,checkpoint,restart,tier\n" + lines, "trace");
  return trace ? *trace : Trace{};
}

// Nodes, and tenants "a" and "b" with so many GPUs each.
inline Scenario setup_of(const std::string& nodes, int quota_a, int quota_b) {
  Scenario setup;
  setup.cluster = *parse_nodes(nodes, 4);
  for (const auto& [name, quota] : {std::pair{"a", quota_a}, std::pair{"b", quota_b}}) {
    policy::Tenant tenant;
    tenant.name = name;
    tenant.quota.any = quota;
    setup.cluster.tenants.push_back(tenant);
  }
  setup.min_run_s = 0;
  setup.yield_s = 10;
  return setup;
}

inline Outcome replayed(const Trace& trace, const char* policy, const Scenario& setup, const Hooks& hooks = {}) {
  auto outcome = replay(trace, *find_sim_policy(policy), setup, hooks);
  return outcome ? *outcome : Outcome{};
}

}  // namespace dl::sim::testing
