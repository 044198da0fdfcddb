// SPDX-License-Identifier: Apache-2.0
// Gets the output of Slurm's commands, for subcommands of dlctl that compare Slurm with dl.toml.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::ctl {

// Runs a command of Slurm's, such as {"scontrol", "show", "config"}, and returns its output, at most 64 MiB. The
// command runs in the locale C.UTF-8 and does not abbreviate lists of nodes. Blocks. kIo, with the first line of its
// message, if it fails; kTimeout after `limit`; kNotFound.
Result<std::string> slurm_output(const std::vector<std::string>& command,
                                 std::chrono::seconds limit = std::chrono::seconds(60));

}  // namespace dl::ctl
