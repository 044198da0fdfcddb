// SPDX-License-Identifier: Apache-2.0
// The part of a plan that follows from --data and --results, and the paths that both and others are made of. Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/contract/path_pattern.h"
#include "launcher/plan/launch_plan.h"

namespace dl::plan {

// What the placeholders of paths stand for in this job.
PathNames names_of(const PlanInput& input);
// The path without "..", "." and a slash at its end, from `base` on if it is relative.
std::string absolute_path(const std::string& base, const std::string& path);

// Sets plan->data and plan->results from the request, and what containers see of them. kInvalid for a path with a
// placeholder that this job has no name for. plan->job_id, job_dir, work_dir and container must be set.
Status plan_data(const PlanInput& input, LaunchPlan* plan);

}  // namespace dl::plan
