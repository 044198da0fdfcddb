// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/group_quota.h"

#include <algorithm>
#include <numeric>

namespace dl::policy {
namespace {

int sum(const std::vector<int>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

}  // namespace

std::vector<int> groups_of(const ClusterState& state, int tenant) {
  std::vector<int> groups;
  for (int group = state.tenants[tenant].group; group >= 0; group = state.parent_of(group)) groups.push_back(group);
  return groups;
}

int most_own(const ClusterState& state, int tenant, int type) {
  const GpuCounts& quota = state.tenants[tenant].quota;
  int most = quota.of(type) + quota.any;
  for (int group = state.tenants[tenant].group; group >= 0; group = state.parent_of(group))
    if (const GpuCounts* of_group = state.quota_of(group)) most += of_group->of(type) + of_group->any;
  return most;
}

GroupQuota::GroupQuota(const ClusterState& state)
    : state_(&state), concerns_(state.tenants.size()), held_(state.groups.size(), Counts(state.types.size() + 1)) {
  for (size_t i = 0; i < state.tenants.size() && !state.groups.empty(); ++i)
    for (const int group : groups_of(state, static_cast<int>(i)))
      if (const GpuCounts* quota = state.quota_of(group)) concerns_[i] |= quota->total() > 0 ? 1 : 0;
}

GroupQuota::Counts GroupQuota::beyond(const GpuCounts& quota, const Counts& held) {
  Counts rest = held;
  const size_t types = held.size() - 1;
  for (size_t type = 0; type < types; ++type) rest[type] = std::max(0, held[type] - quota.of(static_cast<int>(type)));
  if (quota.any == 0) return rest;
  const int all = std::max(0, sum(rest) - quota.any);
  std::fill(rest.begin(), rest.end(), 0);
  rest.back() = all;
  return rest;
}

void GroupQuota::add(int tenant, const int* held, int type, int gpus) {
  Counts own(held, held + state_->types.size());
  own.push_back(0);
  const GpuCounts* quota = &state_->tenants[tenant].quota;
  Counts before = beyond(*quota, own);
  own[type] += gpus;
  Counts after = beyond(*quota, own);
  for (int group = state_->tenants[tenant].group; before != after; group = state_->parent_of(group)) {
    quota = state_->quota_of(group);
    if (quota == nullptr) return;
    Counts& all = held_[group];
    Counts was = beyond(*quota, all);
    for (size_t i = 0; i < all.size(); ++i) all[i] += after[i] - before[i];
    after = beyond(*quota, all);
    before = std::move(was);
  }
}

int GroupQuota::left(int tenant, int type) const {
  int left = 0;
  int exceeds = 0;
  bool typed = state_->tenants[tenant].quota.any == 0;
  for (int group = state_->tenants[tenant].group; group >= 0; group = state_->parent_of(group)) {
    const GpuCounts* quota = state_->quota_of(group);
    if (quota == nullptr) break;
    const Counts& held = held_[group];
    if (typed) left += std::max(0, quota->of(type) - held[type]);
    int beyond_typed = held.back();
    for (int t = 0; t < state_->type_count(); ++t) beyond_typed += std::max(0, held[t] - quota->of(t));
    left += std::max(0, quota->any - beyond_typed);
    exceeds = std::max(0, beyond_typed - quota->any);
    typed = typed && quota->any == 0;
  }
  // An inner group that has some left does not touch the full one around it.
  return exceeds > 0 && left == 0 ? -exceeds : left;
}

int GroupQuota::used(int group) const {
  return sum(held_[group]) - sum(beyond(state_->groups[group].quota, held_[group]));
}

}  // namespace dl::policy
