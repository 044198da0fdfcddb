// SPDX-License-Identifier: Apache-2.0
// Acts on the result of a preflight: learners run on good nodes only, or the job is requeued without the bad ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/run_input.h"
#include "launcher/plan/launch_plan.h"

namespace dl::preflight {

// What check_nodes() calls if nodes are bad.
struct OtherPlan {
  // Makes a plan without these nodes; *input becomes the input of that plan.
  std::function<Result<plan::LaunchPlan>(const std::vector<std::string>&, const plan::LaunchPlan&, plan::PlanInput*)>
      without;
  std::function<void(const plan::LaunchPlan&)> settle;  // called when this plan is used
  // Waits until the job's other dlruns are ready, then calls `ask` to requeue the job without these nodes (a host
  // list).
  std::function<Status(const std::string& excluded, const std::function<Status(const std::string& excluded)>& ask)>
      put_back;
};
// Checks the nodes as --preflight says, before anything is started. If the rest of the allocation can hold the
// learners, *plan becomes one without the bad nodes (spares take their place, an elastic job has fewer learners). Else
// a batch job is requeued with these nodes excluded. Prints findings on standard error (if `quiet`, only bad ones).
// Returns none if dlrun shall go on (also if the checks themselves failed), else dlrun's exit status. Blocks.
std::optional<int> check_nodes(const OtherPlan& other, plan::PlanInput* input, bool quiet, plan::LaunchPlan* plan);

struct CheckedAgain {
  std::vector<std::string> bad;    // names, sorted
  std::vector<std::string> lines;  // the findings, or why the nodes could not be checked
};
// Checks the nodes of `next` again before a restart, after a failure that a node may have caused (run_again()). Starts
// no learner and makes no plan. Blocks; may be called from any thread if no other thread uses `input`.
CheckedAgain check_again(const plan::PlanInput& input, const plan::LaunchPlan& next,
                         const std::vector<std::string>& suspects);

}  // namespace dl::preflight
