// SPDX-License-Identifier: Apache-2.0
// The contract between dlctl and observe.so, the module that reads Slurm's records through libslurm. libslurm's types
// change with each major.minor of Slurm ("22.05", here called its series), so there is a module for each, and dlctl
// loads the one of the Slurm that it finds. A module is used only by a dlctl of the same release: its functions take
// and give C++ types.
#pragma once

#include <cstddef>

#include "common/base/result.h"
#include "slurm-plugin/observe/records.h"

namespace dl::observe {

struct Module {
  // Both must be compared before anything else is used; their places are the same in all releases.
  const char* release;  // of slurm-dl: "0.1.0"
  const char* series;   // of Slurm: "22.05"
  size_t record_shape;  // record_shape() as the module was compiled
  // Reads all nodes and jobs. Reads slurm.conf first; libslurm ends the process if that file is faulty. Blocks and
  // fails as slurm_client.h says. From one thread at a time.
  Status (*load)(Records* into) noexcept;
};

// The module's file, and the one C function that it exports.
constexpr const char* kModuleFile = "observe.so";
constexpr const char* kModuleSymbol = "dl_observe_module";
extern "C" {
using ModuleEntry = const Module*();
}

// A number that changes when the records change, so that a dlctl refuses a module of another build of the same release
// whose records differ.
constexpr size_t record_shape() {
  return (sizeof(NodeRecord) * 1024 + sizeof(SwitchRecord)) * 1024 + sizeof(JobRecord) + sizeof(Records);
}

}  // namespace dl::observe
