// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs, without linking CUDA: the part that uses NCCL is a module that is loaded when such memory is first
// used. So one build serves nodes with and without GPUs.
#pragma once

#include <memory>

#include "launcher/collectives/backend.h"

namespace dl::learner {

// True if the CUDA driver that this process has loaded knows the address as device or managed memory. False without a
// driver.
bool is_device_memory(const void* address);

// Loads the module and opens a backend over the ranks of `host`, which broadcasts NCCL's unique id. Collective.
// kUnsupported: built without NCCL, or the module cannot be loaded (the text says which file and why); kIo, kTimeout:
// errors of CUDA, NCCL or host.
Result<std::unique_ptr<Backend>> open_device_backend(Backend* host, double timeout_s);

bool has_device_backend();  // built with NCCL

// The function that the module exports, and its name. Library and module must be of the same version.
using OpenDeviceBackend = Result<std::unique_ptr<Backend>>(Backend* host, double timeout_s);
constexpr const char* kOpenDeviceBackend = "dllearner_nccl_open";

}  // namespace dl::learner
