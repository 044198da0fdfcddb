// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/common/parse.h"

namespace dl::sim {
namespace {

constexpr int kMostNodes = 100'000;

Error refuse(std::string_view text) {
  return Error{
      Errc::kInvalid,
      fmt::format("'{}' is not accepted; allowed: TYPE=COUNTxGPUS[,...] with COUNT from 1 to {} and GPUS from 1 to "
                  "{}, for example a100=50x8",
                  printable(text), kMostNodes, kMaxGpusPerLearner)};
}

}  // namespace

Result<policy::ClusterState> parse_nodes(std::string_view text, int per_switch) {
  policy::ClusterState state;
  int last_switch = -1;
  for (const std::string& entry : split(text, ',')) {
    const size_t equals = entry.find('=');
    const size_t times = entry.find('x', equals == std::string::npos ? 0 : equals);
    if (equals == std::string::npos || times == std::string::npos) return refuse(text);
    const std::string type = entry.substr(0, equals);
    const auto count = parse_int(entry.substr(equals + 1, times - equals - 1), 1, kMostNodes);
    const auto gpus = parse_int(entry.substr(times + 1), 1, kMaxGpusPerLearner);
    if (!is_plain_name(type) || !count || !gpus) return refuse(text);
    auto known = std::find(state.types.begin(), state.types.end(), type);
    if (known == state.types.end()) known = state.types.insert(known, type);
    for (int i = 0; i < *count; ++i) {
      policy::Node node;
      node.name = fmt::format("{}-{}", type, i + 1);
      node.type = static_cast<int>(known - state.types.begin());
      node.gpus = static_cast<int>(*gpus);
      if (i % per_switch == 0) ++last_switch;
      node.leaf_switch = last_switch;
      state.nodes.push_back(std::move(node));
    }
  }
  if (state.nodes.empty() || state.nodes.size() > kMostNodes) return refuse(text);
  return state;
}

void add_tenants(const std::vector<std::string>& names, policy::ClusterState* state) {
  const bool share = state->tenants.empty() && !names.empty();
  std::vector<int> part(share ? state->types.size() : 0);
  if (share) {
    for (const policy::Node& node : state->nodes) part[node.type] += node.gpus;
    for (int& gpus : part) gpus /= static_cast<int>(names.size());
  }
  for (const std::string& name : names) {
    const bool known = std::any_of(state->tenants.begin(), state->tenants.end(),
                                   [&](const policy::Tenant& tenant) { return tenant.name == name; });
    if (known) continue;
    policy::Tenant tenant;
    tenant.name = name;
    tenant.quota.by_type = part;
    state->tenants.push_back(std::move(tenant));
  }
}

int gpus_in_all(const policy::ClusterState& state) {
  int sum = 0;
  for (const policy::Node& node : state.nodes) sum += node.gpus;
  return sum;
}

}  // namespace dl::sim
