// SPDX-License-Identifier: Apache-2.0
// What Slurm's commands print, for dlctl's commands that compare Slurm with dl.toml.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::ctl {

// Runs a command of Slurm's, such as {"scontrol", "show", "config"}, and returns what it prints, up to 64 MiB: in
// plain letters, and with whole lists of nodes. kIo: it failed, with the first line of what it said.
Result<std::string> slurm_output(const std::vector<std::string>& command,
                                 std::chrono::seconds limit = std::chrono::seconds(60));

}  // namespace dl::ctl
