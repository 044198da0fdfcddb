// SPDX-License-Identifier: Apache-2.0
// How the batch script of a job that belongs to another one looks at that other one. Pure.
#pragma once

#include <string>

namespace dl::slurm_cli {

// The text of a shell function `look`, for sh. It sets $state to what Slurm says of the job, such as RUNNING; "GONE" if
// Slurm says that it does not know the job any more; or "" if slurmctld does not answer or nothing is printed, which
// says nothing of the job. $restarts is how often it was put back into the queue. The user's SQUEUE_* variables, which
// the script inherits, do not count. job_id: own_id().
std::string look_function(const std::string& job_id);

}  // namespace dl::slurm_cli
