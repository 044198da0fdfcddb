// SPDX-License-Identifier: Apache-2.0
// The variables by which a user sets what Slurm's commands print, and of which jobs. A program that reads the output
// starts the commands without them.
#pragma once

#include <string>
#include <vector>

namespace dl::slurm_cli {

// Their names in this process's environment: SQUEUE_PARTITION, SACCT_FORMAT, SCANCEL_INTERACTIVE and the like. For
// CommandOptions::without.
std::vector<std::string> user_settings();

}  // namespace dl::slurm_cli
