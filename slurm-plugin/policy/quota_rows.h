// SPDX-License-Identifier: Apache-2.0
// Who has and holds what now, by tenant: what dlctl quota shows, and what dlpolicyd keeps a history of.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

struct QuotaRow {
  std::string tenant;
  int quota = 0;
  int own = 0;       // held within the quota
  int lent = 0;      // of its idle quota, as far as others borrow it
  int borrowed = 0;  // held beyond the quota
  int pending = 0;   // asked for by waiting jobs, at their smallest size
  int jobs_pending = 0;
  int idle = 0;     // held, and not used for longer than the site allows
  double fair = 0;  // fair_key(): the tenant with the smallest is lent GPUs next; infinite: weight 0
};

// What a group of tenants owns itself.
struct GroupRow {
  std::string group;
  std::string parent;  // empty: none
  int quota = 0;
  int used = 0;  // by its tenants, as their own
};
std::vector<GroupRow> group_rows(const policy::ClusterState& state);

// What is borrowed counts as lent by the tenants in proportion to their idle quota: the sum of `lent` is all that is
// borrowed, or all idle quota if that is less.
std::vector<QuotaRow> quota_rows(const policy::ClusterState& state);

}  // namespace dl::policy
