// SPDX-License-Identifier: Apache-2.0
// Slurm's nodes and jobs, read by the module for the Slurm that runs here. dlctl itself links no libslurm, so that one
// build of it runs beside any version.
#pragma once

#include <string>

#include "common/base/result.h"
#include "slurm-plugin/observe/records.h"

namespace dl::ctl {

// Asks `scontrol --version` which Slurm this is, loads its module for the rest of the process, and asks slurmctld.
// kUnsupported, in one sentence, where there is no module for it or it cannot be loaded.
Result<observe::Records> read_slurm_records();

// Whether read_slurm_records() would find a module that it can load; asks slurmctld nothing.
Status can_read_slurm_records();

// "for any Slurm; quota and why: for Slurm 22.05, 24.11": the versions for which modules are installed.
std::string served_versions();

}  // namespace dl::ctl
