// SPDX-License-Identifier: Apache-2.0
// Whether slurmctld is of the Slurm that a program was compiled for. Pure.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl::observe {

// `controller`: slurmctld's own version, "22.05.8"; `series`: the major.minor of the headers, "22.05". kUnsupported,
// with both and what to do, if they differ. Empty: slurmctld is too old to say.
Status check_series(const std::string& controller, const std::string& series);

}  // namespace dl::observe
