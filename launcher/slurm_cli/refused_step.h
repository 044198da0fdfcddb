// SPDX-License-Identifier: Apache-2.0
// How often a job step is tried again that Slurm refused to create, or could not start on each of its nodes.
//
// After a reconfigure or a restart slurmctld reads the state of its nodes again, and for a moment refuses steps on
// nodes that it does not know to be up, as nodes "without the memory required by the task" (_pick_step_nodes() in
// Slurm's src/stepmgr/stepmgr.c; seen with 24.11.5). srun waits for busy nodes, but ends at any other answer.
//
// srun may also fail to reach the slurmd of a node that has just come back, although slurmctld takes it for up: "Task
// launch for StepId=7.0 failed on node n2: Communication connection failure", then "Application launch failed". It then
// has the tasks on the other nodes killed, which run already, and ends (_launch_tasks() and _fail_step_tasks() in
// Slurm's src/api/step_launch.c, the same in 22.05 and 24.11).
#pragma once

#include <chrono>
#include <optional>

namespace dl::slurm_cli {

// True if srun's exit status may mean that the step was refused: 1, as for all errors of srun itself (a task's status 1
// looks the same). Pure.
bool may_be_refused(int exit_status);

// True if srun's exit status may mean that it could not start the tasks of a node. srun then takes Slurm's error number
// for the status that wait() gives of a task, so it ends with 128 and the lowest seven bits of the number, or, if a
// task on another node was killed by a higher signal, with 128 and that signal. Pure.
bool may_not_have_reached(int exit_status);

// The time to wait before the next try of a step that has been refused `refused` times (1 or more). None: give up. All
// pauses add up to half a minute: longer than a reconfigure takes, and a wrong request still fails soon. Pure.
std::optional<std::chrono::seconds> pause_after_refusal(int refused);

// The number of tries after the first one.
int max_tries_again();

}  // namespace dl::slurm_cli
