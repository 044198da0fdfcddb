// SPDX-License-Identifier: Apache-2.0
// Who has and holds what, as rows, text and JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::ctl {

struct QuotaRow {
  std::string tenant;
  int quota = 0;
  int own = 0;       // held within the quota
  int lent = 0;      // of the idle quota, held by others
  int borrowed = 0;  // held beyond the quota
  int pending = 0;   // asked for by waiting jobs, at their smallest size
  int jobs_pending = 0;
  double fair = 0;  // whose turn it is: the smallest first; infinite: never
};

// A tenant's idle quota counts as lent as far as others borrow: shared out by the size of what is idle, so that the sum
// is what is borrowed, or all that is idle if less.
std::vector<QuotaRow> quota_rows(const policy::ClusterState& state);

// With `bars`, a bar of `width` characters for each: own '#', lent '+', idle '.', borrowed beyond it '>'.
std::string quota_text(const std::vector<QuotaRow>& rows, bool bars, int width = 24);
std::string quota_json(const std::vector<QuotaRow>& rows);

}  // namespace dl::ctl
