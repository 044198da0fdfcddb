// SPDX-License-Identifier: Apache-2.0
// The plan in words and as JSON: `dlrun --dry-run [--json]`, and plan.json in the job directory.
#pragma once

#include <string>

#include "launcher/plan/launch_plan.h"

namespace dl::plan {

// For people: aligned, ends with a line break. inherited: the environment that learners inherit; only the variables
// that the plan sets or keeps are shown.
std::string plan_text(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited);

// One JSON object, indented by two blanks, ends with a line break. Keys are described in dlrun(1).
std::string plan_json(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited);

}  // namespace dl::plan
