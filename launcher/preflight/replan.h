// SPDX-License-Identifier: Apache-2.0
// What a preflight means for the job: learners stand on good nodes only, or the job asks Slurm for others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/run_input.h"
#include "launcher/plan/launch_plan.h"

namespace dl::preflight {

// Does what --preflight asks for, before anything is started. *plan is made anew without the bad nodes where the rest
// of the allocation holds the learners: spares take their place, an elastic job takes fewer. Else a batch job goes back
// into the queue with these nodes excluded. Says what it found on standard error (warnings not if `quiet`).
// Returns nothing to go on, or dlrun's exit status.
struct OtherPlan {
  // A plan of what is left without these nodes; *input becomes what it was made of.
  std::function<Result<plan::LaunchPlan>(const std::vector<std::string>&, const plan::LaunchPlan&, plan::PlanInput*)>
      without;
  std::function<void(const plan::LaunchPlan&)> settle;  // it is carried out
  // Asks Slurm by `ask` to put the job back without these nodes (a list), when other dlruns of the job are ready, too.
  std::function<Status(const std::string& excluded, const std::function<Status(const std::string& excluded)>& ask)>
      put_back;
};
std::optional<int> check_nodes(const OtherPlan& other, plan::PlanInput* input, bool quiet, plan::LaunchPlan* plan);

// The same before the learners are started anew on the nodes of `next`, after a failure that a node may be to blame
// for. Starts and plans nothing. Blocks; may be called from any thread, `input` being the caller's own.
struct CheckedAgain {
  std::vector<std::string> bad;    // names, sorted
  std::vector<std::string> lines;  // what was found, or that nothing could be
};
CheckedAgain check_again(const plan::PlanInput& input, const plan::LaunchPlan& next,
                         const std::vector<std::string>& suspects);

}  // namespace dl::preflight
