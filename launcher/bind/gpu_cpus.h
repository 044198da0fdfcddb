// SPDX-License-Identifier: Apache-2.0
// Which CPUs are nearest to GPUs, as NVIDIA's management library tells.
#pragma once

#include <string>
#include <vector>

#include "launcher/bind/share.h"

namespace dl::bind {

// gpus: numbers of NVML's or names ("GPU-8a..."). Empty where the library, a GPU or its place is not to be had. A child
// process asks, for two seconds at most: a driver that hangs holds up nobody but that child.
Bitmap cpus_near(const std::vector<std::string>& gpus);

}  // namespace dl::bind
