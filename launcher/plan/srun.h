// SPDX-License-Identifier: Apache-2.0
// The command that starts one agent per learner. Pure; used by make_plan() alone.
#pragma once

#include "launcher/plan/launch_plan.h"

namespace dl::plan {

// Fills method, argv, scrub, hostfile_path and hostfile_text from the rest of the plan.
// overcommit: a node gets more learners than Slurm counted tasks for (srun --overcommit).
void fill_start_command(const PlanInput& input, const FrameworkEntry& entry, const Allocation& allocation,
                        bool overcommit, LaunchPlan* plan);

}  // namespace dl::plan
