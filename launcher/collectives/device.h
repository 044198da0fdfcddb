// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs, without being linked with CUDA: the part that speaks NCCL is a module, loaded when the first such
// memory is met. So one build serves nodes with and without GPUs.
#pragma once

#include <memory>

#include "launcher/collectives/backend.h"

namespace dl::learner {

// Whether the CUDA driver that this process has loaded knows the address as device or managed memory. Without one: no.
bool is_device_memory(const void* address);

// Collective over host's ranks, whose broadcast carries NCCL's unique id. kUnsupported: the module is not there or
// cannot be loaded; the sentence says which file and why.
Result<std::unique_ptr<Backend>> open_device_backend(Backend* host, double timeout_s);

bool has_device_backend();  // built with NCCL

// What the module exports under this name. The module is built with the library and of no use to another version.
using OpenDeviceBackend = Result<std::unique_ptr<Backend>>(Backend* host, double timeout_s);
constexpr const char* kOpenDeviceBackend = "dllearner_nccl_open";

}  // namespace dl::learner
