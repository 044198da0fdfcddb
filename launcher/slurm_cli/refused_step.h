// SPDX-License-Identifier: Apache-2.0
// How often a job step is tried again that Slurm refused to create.
//
// After a reconfigure or a restart slurmctld reads the state of its nodes again, and for a moment refuses steps on
// nodes that it does not know to be up, as nodes "without the memory required by the task" (_pick_step_nodes() in
// Slurm's src/stepmgr/stepmgr.c; seen with 24.11.5). srun waits for busy nodes, but ends at any other answer.
#pragma once

#include <chrono>
#include <optional>

namespace dl::slurm_cli {

// True if srun's exit status may mean that the step was refused: 1, as for all errors of srun itself (a task's status 1
// looks the same). Pure.
bool may_be_refused(int exit_status);

// The time to wait before the next try of a step that has been refused `refused` times (1 or more). None: give up. All
// pauses add up to half a minute: longer than a reconfigure takes, and a wrong request still fails soon. Pure.
std::optional<std::chrono::seconds> pause_after_refusal(int refused);

// The number of tries after the first one.
int max_tries_again();

}  // namespace dl::slurm_cli
