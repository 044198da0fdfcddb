// SPDX-License-Identifier: Apache-2.0
// A job step that Slurm refused to create, and that is tried again.
//
// slurmctld refuses a step for a moment where a reconfigure or a restart has made it read the state of its nodes anew:
// one that is not known to be up yet counts as one "without the memory required by the task" (_pick_step_nodes() in
// Slurm's src/stepmgr/stepmgr.c; seen with 24.11.5). srun itself waits for busy nodes, but ends at any other answer.
#pragma once

#include <chrono>
#include <optional>

namespace dl::slurm_cli {

// Whether srun ended in a way that tells nothing of the program: with 1 for errors of its own, and with the status of
// a task where it had started tasks. Pure.
bool may_be_refused(int exit_status);

// The time to wait before the next try of a step that has been refused so often (1 or more). None: enough was tried.
// A wrong request is told within half a minute so, and a reconfigure is outlived. Pure.
std::optional<std::chrono::seconds> pause_after_refusal(int refused);

// How often it is tried after the first time.
int max_tries_again();

}  // namespace dl::slurm_cli
