// SPDX-License-Identifier: Apache-2.0
// How many GPUs this machine has, for dlrun without Slurm.
#pragma once

#include <string>

namespace dl {

// visible: CUDA_VISIBLE_DEVICES, nullptr if unset; devices: the folder with the device files, mostly /dev. Counts
// NVIDIA's GPUs that a process may use: the names in CUDA_VISIBLE_DEVICES up to the first that names none, else the
// device files. -1: not known, because there are GPUs of another maker.
int count_machine_gpus(const char* visible, const std::string& devices);

// The same of this process and this machine. -1 also where NVIDIA's driver is installed and no device file is there
// yet.
int machine_gpus();

}  // namespace dl
