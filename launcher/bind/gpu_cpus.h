// SPDX-License-Identifier: Apache-2.0
// Finds the CPUs nearest to GPUs, through NVIDIA's management library (NVML).
#pragma once

#include <string>
#include <vector>

#include "launcher/bind/share.h"

namespace dl::bind {

// gpus: NVML indices or UUIDs ("GPU-8a..."). Empty if the library is missing, or if it does not know a GPU or its
// place. A child process asks NVML and gets two seconds, so that a driver that hangs does not block the caller.
Bitmap cpus_near(const std::vector<std::string>& gpus);

}  // namespace dl::bind
