// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/site_state.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <map>
#include <set>

namespace dl::policy {
namespace {

std::vector<std::string> types_of(const SiteConfig& site) {
  std::set<std::string> types;
  for (const auto& [type, gpus] : site.gpus_per_node_by_type) types.insert(type);
  for (const auto& [type, count] : site.node_counts) types.insert(type);
  for (const auto& [type, weight] : site.quota.type_weights) types.insert(type);
  for (const SiteTenant& tenant : site.tenants) {
    for (const auto& [type, gpus] : tenant.quota.by_type) types.insert(type);
    if (tenant.lend)
      for (const auto& [type, gpus] : tenant.lend->by_type) types.insert(type);
  }
  for (const SiteGroup& group : site.groups)
    for (const auto& [type, gpus] : group.quota.by_type) types.insert(type);
  if (types.empty()) types.emplace(kPlainGpuType);
  return {types.begin(), types.end()};
}

GpuCounts counts_of(const SiteGpus& gpus, const std::vector<std::string>& types) {
  GpuCounts counts;
  counts.any = gpus.any;
  for (const std::string& type : types) counts.by_type.push_back(gpus.of(type));
  return counts;
}

// How many GPUs a node of a type has; 0: not known.
int gpus_of_node(const SiteConfig& site, const std::string& type) {
  const auto found = site.gpus_per_node_by_type.find(type);
  return found == site.gpus_per_node_by_type.end() ? site.gpus_per_node : found->second;
}

void add_nodes(const SiteConfig& site, ClusterState* state) {
  state->nodes_known = false;
  if (site.node_counts.empty()) return;
  for (const std::string& type : state->types)
    if (site.node_counts.count(type) == 0 || gpus_of_node(site, type) == 0) return;
  state->nodes_known = true;
  for (int type = 0; type < state->type_count(); ++type) {
    const std::string& name = state->types[type];
    for (int i = 1; i <= site.node_counts.at(name); ++i) {
      Node node;
      node.name = fmt::format("{}-{}", name, i);
      node.type = type;
      node.gpus = gpus_of_node(site, name);
      state->nodes.push_back(std::move(node));
    }
  }
}

void add_tenants(const SiteConfig& site, ClusterState* state) {
  std::map<std::string, int> groups;
  for (const SiteTenant& from : site.tenants)
    if (!from.group.empty()) groups.emplace(from.group, 0);
  for (const SiteGroup& from : site.groups) {
    groups.emplace(from.name, 0);
    if (!from.parent.empty()) groups.emplace(from.parent, 0);
  }
  int number = 0;
  for (auto& [name, group] : groups) group = number++;
  if (!site.groups.empty()) {
    state->groups.resize(groups.size());
    for (const auto& [name, group] : groups) state->groups[group].name = name;
    for (const SiteGroup& from : site.groups) {
      Group& group = state->groups[groups.at(from.name)];
      group.quota = counts_of(from.quota, state->types);
      if (!from.parent.empty()) group.parent = groups.at(from.parent);
    }
  }
  for (const SiteTenant& from : site.tenants) {
    Tenant tenant;
    tenant.name = from.name;
    tenant.group = from.group.empty() ? kNobody : groups.at(from.group);
    tenant.quota = counts_of(from.quota, state->types);
    if (from.lend) tenant.lend = counts_of(*from.lend, state->types);
    tenant.borrow_limit = from.borrow_limit.value_or(kNoLimit);
    tenant.max_job_gpus = from.max_job_gpus.value_or(kNoLimit);
    tenant.max_user_gpus = from.max_user_gpus.value_or(kNoLimit);
    tenant.weight = from.weight;
    state->tenants.push_back(std::move(tenant));
  }
}

}  // namespace

ClusterState state_of(const SiteConfig& site) {
  ClusterState state;
  state.types = types_of(site);
  for (const std::string& type : state.types) {
    const auto weight = site.quota.type_weights.find(type);
    state.type_weight.push_back(weight == site.quota.type_weights.end() ? 1.0 : weight->second);
  }
  state.half_life_s = site.quota.half_life.count();
  state.patience_s = site.quota.patience.count();
  state.balance = site.quota.balance;
  state.most_unsaved_s = site.quota.most_unsaved.count();
  state.most_restart_s = site.quota.most_restart.count();
  add_nodes(site, &state);
  add_tenants(site, &state);
  return state;
}

std::optional<int> type_index(const ClusterState& state, std::string_view name) {
  if (name.empty()) return kAnyType;
  const auto found = std::find(state.types.begin(), state.types.end(), name);
  if (found == state.types.end()) return std::nullopt;
  return static_cast<int>(found - state.types.begin());
}

std::optional<int> tenant_index(const ClusterState& state, std::string_view account) {
  for (size_t i = 0; i < state.tenants.size(); ++i) {
    const std::string& name = state.tenants[i].name;
    if (name.size() == account.size() && ::strncasecmp(name.data(), account.data(), name.size()) == 0)
      return static_cast<int>(i);
  }
  return std::nullopt;
}

}  // namespace dl::policy
