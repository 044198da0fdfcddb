// SPDX-License-Identifier: Apache-2.0
// By what a run is known again when Slurm starts its job once more. Pure.
#pragma once

#include <string>

#include "launcher/plan/launch_plan.h"

namespace dl::runs {

struct RunIdentity {
  std::string what;         // of job, command, working directory and checkpoint: 16 hex digits
  std::string environment;  // of the user's variables: 16 hex digits
  // "WHAT-ENVIRONMENT", as events have it.
  std::string text() const { return what + "-" + environment; }
};
bool operator==(const RunIdentity& a, const RunIdentity& b);

// What Slurm sets anew at each start, and what follows from the node, is not looked at.
RunIdentity identify(const plan::LaunchPlan& plan, const plan::Environment& environment);
// Both empty for anything else.
RunIdentity parse_identity(const std::string& text);

}  // namespace dl::runs
