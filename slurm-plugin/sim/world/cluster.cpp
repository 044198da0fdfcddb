// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/world/cluster.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "common/base/parse.h"
#include "slurm-plugin/policy/site_state.h"

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

Result<Site> read_site(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) return errno_error("open " + printable(path, 200), errno);
  DL_TRY_ASSIGN(const SiteConfig config, load_site_config(path));
  Site site;
  site.cluster = policy::state_of(config);
  site.min_run_s = config.quota.min_run.count();
  return site;
}

Status set_nodes(std::string_view text, policy::ClusterState* state) {
  std::vector<policy::Node> nodes;
  for (const std::string& entry : split(text, ',')) {
    const size_t equals = entry.find('=');
    const size_t times = entry.find('x', equals == std::string::npos ? 0 : equals);
    if (equals == std::string::npos || times == std::string::npos) return refuse(text);
    const std::string type = entry.substr(0, equals);
    const auto count = parse_int(entry.substr(equals + 1, times - equals - 1), 1, kMostNodes);
    const auto gpus = parse_int(entry.substr(times + 1), 1, kMaxGpusPerLearner);
    if (!is_plain_name(type) || !count || !gpus) return refuse(text);
    auto known = std::find(state->types.begin(), state->types.end(), type);
    if (known == state->types.end()) known = state->types.insert(known, type);
    for (int i = 0; i < *count; ++i) {
      policy::Node node;
      node.name = fmt::format("{}-{}", type, nodes.size() + 1);
      node.type = static_cast<int>(known - state->types.begin());
      node.gpus = static_cast<int>(*gpus);
      nodes.push_back(std::move(node));
    }
  }
  if (nodes.empty() || nodes.size() > kMostNodes) return refuse(text);
  state->nodes = std::move(nodes);
  state->nodes_known = true;
  return {};
}

void set_switches(int nodes, policy::ClusterState* state) {
  int leaf_switch = 0;
  int on_it = 0;
  for (size_t i = 0; i < state->nodes.size(); ++i) {
    if (on_it == nodes || (i > 0 && state->nodes[i].type != state->nodes[i - 1].type)) {
      ++leaf_switch;
      on_it = 0;
    }
    state->nodes[i].leaf_switch = leaf_switch;
    ++on_it;
  }
}

void add_tenants(const std::vector<std::string>& names, policy::ClusterState* state) {
  if (!state->tenants.empty() || names.empty()) return;
  std::vector<int> part(state->types.size());
  for (const policy::Node& node : state->nodes) part[node.type] += node.gpus;
  for (int& gpus : part) gpus /= static_cast<int>(names.size());
  for (const std::string& name : names) {
    policy::Tenant tenant;
    tenant.name = name;
    tenant.quota.by_type = part;
    state->tenants.push_back(std::move(tenant));
  }
}

void set_unavailable(double part, policy::ClusterState* state) {
  std::vector<int> left(state->types.size());
  for (const policy::Node& node : state->nodes) ++left[node.type];
  for (int& nodes : left) nodes = static_cast<int>(std::lround(part * nodes));
  for (auto node = state->nodes.rbegin(); node != state->nodes.rend(); ++node)
    if (left[node->type]-- > 0) node->usable = false;
}

policy::ClusterState without_quotas(policy::ClusterState cluster) {
  const int all = gpus_in_all(cluster);
  cluster.groups.clear();
  for (policy::Tenant& tenant : cluster.tenants) {
    policy::Tenant open;
    open.name = tenant.name;
    open.quota.any = all;
    tenant = std::move(open);
  }
  return cluster;
}

int gpus_in_all(const policy::ClusterState& state) {
  int sum = 0;
  for (const policy::Node& node : state.nodes) sum += node.gpus;
  return sum;
}

}  // namespace dl::sim
