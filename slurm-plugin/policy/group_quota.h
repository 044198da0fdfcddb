// SPDX-License-Identifier: Apache-2.0
// What groups of tenants own themselves: quota that any tenant below them may use as its own once its own quota is used
// up. Groups lie in one another, so what exceeds one group's quota comes out of the next one's.
//
// Of a tenant's or a group's quota typed GPUs are used first, then those for any type. GPUs that exceed a quota for any
// type count only against quotas for any type further out. So all quotas inside a group with a typed quota must be
// typed (check() refuses anything else).
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
  // Counts `gpus` more GPUs of a type as own. `held`, by type: all that the tenant held as own before, its groups' too.
  void add(int tenant, const int* held, int type, int gpus);
  // How many more GPUs of a type its groups could give the tenant. Negative: more is charged to them than they own.
  int left(int tenant, int type) const;
  // GPUs used of the quota that a group itself owns.
  int used(int group) const;

 private:
  // GPUs by type; the last element counts those that have passed a quota for any type.
  using Counts = std::vector<int>;
  static Counts beyond(const GpuCounts& quota, const Counts& held);

  const ClusterState* state_;
  std::vector<char> concerns_;  // by tenant
  std::vector<Counts> held_;    // by group: what exceeds the quotas of the tenants and groups in it
};

}  // namespace dl::policy
