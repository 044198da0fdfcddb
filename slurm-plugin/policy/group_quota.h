// SPDX-License-Identifier: Apache-2.0
// What groups of tenants own themselves: quota that any tenant below them may use as its own once its own quota is used
// up. Groups lie in one another, so what exceeds one group's quota comes out of the next one's.
//
// Of a tenant's or a group's quota typed GPUs are used first, then those for any type. What has passed a quota for any
// type counts only in quotas for any type from there on: so a typed quota of a group expects that all below it are
// typed, too (check() refuses anything else).
#pragma once

#include <vector>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

// The groups that a tenant lies in, from the inside out.
std::vector<int> groups_of(const ClusterState& state, int tenant);
// The most GPUs of a type that a tenant's quota and its groups' could ever give it.
int most_own(const ClusterState& state, int tenant, int type);

class GroupQuota {
 public:
  explicit GroupQuota(const ClusterState& state);

  // Does a group that the tenant lies in own anything?
  bool concerns(int tenant) const { return concerns_[tenant] != 0; }
  // The tenant holds so many GPUs more of a type as own: `held`, by type, until now, of its own quota and its groups'.
  void add(int tenant, const int* held, int type, int gpus);
  // What the tenant could hold more of a type beyond its own quota. Below 0: the groups hold more than they own.
  int left(int tenant, int type) const;
  // Used of what a group owns.
  int used(int group) const;

 private:
  // GPUs by type, and behind them those of which it does not matter any more.
  using Counts = std::vector<int>;
  static Counts beyond(const GpuCounts& quota, const Counts& held);

  const ClusterState* state_;
  std::vector<char> concerns_;  // by tenant
  std::vector<Counts> held_;    // by group: what exceeds the quotas below it
};

}  // namespace dl::policy
