// SPDX-License-Identifier: Apache-2.0
// Why an elastic job has the size that it has, in one sentence. Pure.
#pragma once

#include <string>

#include "slurm-plugin/policy/sizes/steady.h"

namespace dl::policy {

// "" for a job that does not run or is not elastic. Preconditions as decide_steadily().
std::string why_size(ClusterState* state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options, int job);

}  // namespace dl::policy
