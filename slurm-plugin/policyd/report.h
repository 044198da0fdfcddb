// SPDX-License-Identifier: Apache-2.0
// What dlpolicyd decided and would change, for people and for programs. Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/policyd/planner.h"

namespace dl::policyd {

// "job 17: yield: yields 2 GPUs to job 18 ... (licenses=, admin_comment=..., signal)"
std::string describe(const Action& action);
// One line for each action, or a line that says that there is nothing to do.
std::string as_text(const std::vector<Action>& actions);
// An array of {"job":17,"action":"yield","why":"...","licenses":"...","admin_comment":"...","begin":1789000000,
// "site_factor":5,"min_nodes":1,"max_nodes":1,"signal":true,"requeue":true}; members that do not apply are left out.
std::string as_json(const std::vector<Action>& actions);

}  // namespace dl::policyd
