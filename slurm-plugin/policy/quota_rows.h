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
  int lent = 0;      // of the idle quota, held by others
  int borrowed = 0;  // held beyond the quota
  int pending = 0;   // asked for by waiting jobs, at their smallest size
  int jobs_pending = 0;
  int idle = 0;     // held, and not used for longer than the site allows
  double fair = 0;  // whose turn it is: the smallest first; infinite: never
};

// What a group of tenants owns itself.
struct GroupRow {
  std::string group;
  std::string parent;  // empty: none
  int quota = 0;
  int used = 0;  // by its tenants, as their own
};
std::vector<GroupRow> group_rows(const policy::ClusterState& state);

// A tenant's idle quota counts as lent as far as others borrow: shared out by the size of what is idle, so that the sum
// is what is borrowed, or all that is idle if less.
std::vector<QuotaRow> quota_rows(const policy::ClusterState& state);

}  // namespace dl::policy
