// SPDX-License-Identifier: Apache-2.0
// What a tenant that is not in dl.toml any more has in the queue. Slurm would start it as soon as its licences are
// gone, and nobody would be charged.
#pragma once

#include <string>
#include <vector>

#include "common/site/site_config.h"
#include "slurm-plugin/observe/records.h"

namespace dl::ctl {

struct Orphan {
  int64_t job = 0;  // Slurm's number; of a job array, of the record that its waiting elements have
  std::string tenant;
  std::string label;  // as it should be: held by us, so that it is released when the tenant is back
};

// The jobs that wait, and are not held yet. Pure.
std::vector<Orphan> orphans_of(const SiteConfig& site, const observe::Records& records);

}  // namespace dl::ctl
