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
  // To be compared before anything else is used; these two stay where they are in all releases.
  const char* release;  // of slurm-dl: "0.1.0"
  const char* series;   // of Slurm: "22.05"
  size_t record_shape;  // record_shape() as the module was compiled
  // All nodes and jobs as they are now. Reads slurm.conf, on whose faults libslurm ends the process; blocks as
  // slurm_client.h says, and gives its errors. From one thread at a time.
  Status (*load)(Records* into) noexcept;
};

// The module's file, and the one C function that it exports.
constexpr const char* kModuleFile = "observe.so";
constexpr const char* kModuleSymbol = "dl_observe_module";
extern "C" {
using ModuleEntry = const Module*();
}

// Changes when a record does: two builds of one release that differ there do not fit together.
constexpr size_t record_shape() {
  return (sizeof(NodeRecord) * 1024 + sizeof(SwitchRecord)) * 1024 + sizeof(JobRecord) + sizeof(Records);
}

}  // namespace dl::observe
