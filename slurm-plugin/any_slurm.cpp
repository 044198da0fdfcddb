// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/any_slurm.h"

#include "slurm-plugin/running_slurm.h"

extern "C" {
unsigned int plugin_version = SLURM_VERSION_NUMBER;
const char dl_any_slurm[] = "22.05";
}

namespace {

__attribute__((constructor)) void take_the_version_of_the_running_slurm() {
  plugin_version = dl::abi::running_slurm();
}

}  // namespace
