// SPDX-License-Identifier: Apache-2.0
// How one file is a plugin for every version of Slurm.
//
// Slurm opens a plugin with dlopen(), and then reads the number in its symbol plugin_version: for SPANK the first two
// parts have to be Slurm's own, for all other plugins all three (_verify_syms() in src/common/plugin.c, the same from
// 22.05 to 26.05). A plugin that does not fit keeps slurmctld from starting; one that plugstack.conf requires fails
// each task on its node, and drains the node. So plugin_version is a variable here, and a constructor, which dlopen()
// runs before Slurm reads it, sets it to the version of the Slurm that loads the file (running_slurm.h).
//
// Who links this may only use what all versions have: spank.h, whose functions and numbers have not changed from 22.05
// to 26.05 (three names were added), and of job_submit the names of its functions, but no job_desc_msg_t, whose layout
// is another one in each release (22.05, 23.02, ...), though not in the micro releases of one.
#pragma once

#include "slurm-plugin/slurm_abi.h"

extern "C" {
// Not of Slurm: `dlctl doctor` sees by it that the file is for every version, from this one on.
extern const char dl_any_slurm[];
}
