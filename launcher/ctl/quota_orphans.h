// SPDX-License-Identifier: Apache-2.0
// Waiting jobs of tenants that are no longer in dl.toml. They have to be held: Slurm would start them as soon as their
// licences are removed, and no quota would be charged.
#pragma once

#include <string>
#include <vector>

#include "common/site/site_config.h"
#include "slurm-plugin/observe/records.h"

namespace dl::ctl {

struct Orphan {
  int64_t job = 0;  // Slurm's job id; for waiting elements of an array, that of the array
  std::string tenant;
  std::string label;  // its new admin comment, which marks it as held by us until the tenant is back
};

// The waiting jobs that are not held yet. Pure.
std::vector<Orphan> orphans_of(const SiteConfig& site, const observe::Records& records);

}  // namespace dl::ctl
