// SPDX-License-Identifier: Apache-2.0
// Subcommands that the Python package dl carries out: text work of a person's, on a login node.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::ctl {

// main() of the module ("dl.migrate.__main__") takes the place of this process, run by the python3 in PATH, and ends it
// with its own exit status. Returns only if that cannot be done. The package is taken from where slurm-dl is installed,
// or from $DL_PYTHON_FOLDER, never from the working directory.
Status run_python(const std::string& module, const std::vector<std::string>& arguments);

}  // namespace dl::ctl
