// SPDX-License-Identifier: Apache-2.0
// Counts the GPUs of this machine, for dlrun without Slurm.
#pragma once

#include <string>

namespace dl {

// visible: CUDA_VISIBLE_DEVICES, nullptr if unset; devices: the folder of device files, normally /dev. Counts the
// NVIDIA GPUs that a process may use: the names in CUDA_VISIBLE_DEVICES up to the first that is empty or -1; if it is
// unset, the device files. -1: not known, since there are GPUs with other device files (AMD, WSL).
int count_machine_gpus(const char* visible, const std::string& devices);

// The same for this process on this machine. -1 also if NVIDIA's driver is installed but has no device file yet.
int machine_gpus();

}  // namespace dl
