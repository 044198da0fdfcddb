// SPDX-License-Identifier: Apache-2.0
// Checks that slurmctld has the version of Slurm for which a program was compiled. Pure.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl::observe {

// `controller`: slurmctld's own version, "22.05.8"; empty if slurmctld is too old to report it. `series`: the
// major.minor of the headers, "22.05". kUnsupported if they differ; the error names both and says what to do.
Status check_series(const std::string& controller, const std::string& series);

}  // namespace dl::observe
