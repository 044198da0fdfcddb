// SPDX-License-Identifier: Apache-2.0
// A dlrun that cannot start its learners for a reason that an administrator will mend puts its job back into the queue.
#pragma once

#include <chrono>
#include <string>

#include "common/base/result.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl {

struct PutBack {
  bool hold = false;
  std::string reason;            // a sentence: it becomes the job's comment, its event and a line of the output
  std::chrono::seconds delay{};  // after which Slurm may start the job again; a held one has a short one
};

// Requeues the job in which this process runs. Slurm then ends all its processes, so this returns only if Slurm refuses
// or has not killed dlrun.
Status put_back(const slurm_cli::JobInfo& job, const PutBack& how);

}  // namespace dl
