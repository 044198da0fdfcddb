// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/quota_rows.h"

#include <algorithm>

#include "slurm-plugin/policy/fair_share.h"

namespace dl::policy {

std::vector<GroupRow> group_rows(const ClusterState& state) {
  const Ledger ledger(state);
  std::vector<GroupRow> rows;
  for (size_t i = 0; i < state.groups.size(); ++i) {
    const Group& group = state.groups[i];
    rows.push_back(GroupRow{group.name, group.parent >= 0 ? state.groups[group.parent].name : std::string(),
                            group.quota.total(), ledger.used_of_group(static_cast<int>(i))});
  }
  return rows;
}

std::vector<QuotaRow> quota_rows(const ClusterState& state) {
  const Ledger ledger(state);
  std::vector<QuotaRow> rows;
  int idle_all = 0;
  int borrowed_all = 0;
  for (size_t i = 0; i < state.tenants.size(); ++i) {
    const int tenant = static_cast<int>(i);
    QuotaRow row;
    row.tenant = state.tenants[i].name;
    row.quota = state.tenants[i].quota.total();
    row.own = ledger.own(tenant);
    row.borrowed = ledger.borrowed(tenant);
    row.fair = fair_key(state, ledger, tenant);
    for (const Job& job : state.jobs) {
      if (job.tenant != tenant) continue;
      if (job.running) {
        row.idle += job.idle_gpus;
        continue;
      }
      ++row.jobs_pending;
      row.pending += job.min_learners * job.gpus_per_learner;
    }
    idle_all += ledger.idle_quota(tenant);
    borrowed_all += row.borrowed;
    rows.push_back(row);
  }
  // Shared out so that the rounding errors do not add up.
  const int lent_all = std::min(idle_all, borrowed_all);
  int64_t idle_before = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int idle = ledger.idle_quota(static_cast<int>(i));
    if (idle_all > 0)
      rows[i].lent = static_cast<int>((idle_before + idle) * lent_all / idle_all - idle_before * lent_all / idle_all);
    idle_before += idle;
  }
  return rows;
}

}  // namespace dl::policy
