// SPDX-License-Identifier: Apache-2.0
// Runs the subcommands that the Python package `dl` implements (`migrate`, `python`, and parts of `export`).
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::ctl {

// Replaces this process (exec) by the python3 in PATH, which runs main() of the module ("dl.migrate.__main__"); its
// exit status is dlctl's. Returns only on an error: kIo if the package is missing, kUnsupported without python3. The
// package is taken from where slurm-dl is installed or from $DL_PYTHON_FOLDER, never from the working directory.
Status run_python(const std::string& module, const std::vector<std::string>& arguments);

}  // namespace dl::ctl
