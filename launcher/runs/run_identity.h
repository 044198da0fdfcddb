// SPDX-License-Identifier: Apache-2.0
// Recognises a run when Slurm starts its job again. Pure.
#pragma once

#include <string>

#include "launcher/plan/launch_plan.h"

namespace dl::runs {

struct RunIdentity {
  std::string what;         // hash of job, command, working directory, checkpoint and image: 16 hex digits
  std::string environment;  // hash of the user's environment variables: 16 hex digits
  // "WHAT-ENVIRONMENT", as in Event::run.
  std::string text() const { return what + "-" + environment; }
};
bool operator==(const RunIdentity& a, const RunIdentity& b);

// Ignores variables that Slurm sets at each start of the job or that depend on the node.
RunIdentity identify(const plan::LaunchPlan& plan, const plan::Environment& environment);
// The inverse of text(); both members are empty if `text` is not one.
RunIdentity parse_identity(const std::string& text);

}  // namespace dl::runs
