// SPDX-License-Identifier: Apache-2.0
// What a process finds out about itself and where it runs.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl {

// The value of a variable of the environment; empty if it is not set.
std::string environment_value(const char* name);

// The name that Slurm uses for this node; outside Slurm the host's name.
std::string node_name();

// The path of the running program. kIo if /proc cannot be read.
Result<std::string> own_program();

// The path of the program `name` of the same installation as `program`. Installed programs lie in one folder; in a
// build tree each room has a folder of its own, and `room` ("bind") is the folder of `name`. kNotFound "dl-bind was not
// found in FOLDER".
Result<std::string> program_beside(const std::string& program, const std::string& name, const std::string& room);

}  // namespace dl
