// SPDX-License-Identifier: Apache-2.0
// The contract between dlctl and observe.so, the module that reads Slurm's records through libslurm. libslurm's types
// change with each major.minor of Slurm ("22.05", here called its series), so there is a module for each series, and
// dlctl loads the one for the Slurm that it finds. The module's functions take and give C++ types, so dlctl uses only a
// module of its own release.
#pragma once

#include <cstddef>

#include "common/base/result.h"
#include "slurm-plugin/observe/records.h"

namespace dl::observe {

struct Module {
  // release and series must be compared before anything else is used; all releases have them at the same place.
  const char* release;  // of slurm-dl: "0.1.0"
  const char* series;   // of Slurm: "22.05"
  size_t record_shape;  // record_shape() at the time when the module was compiled
  // Reads all nodes and jobs. It reads slurm.conf first; libslurm ends the process if that file is faulty. It blocks
  // and fails as slurm_client.h says. Only one thread may call it at a time.
  Status (*load)(Records* into) noexcept;
};

// The module's file, and the one C function that it exports.
constexpr const char* kModuleFile = "observe.so";
constexpr const char* kModuleSymbol = "dl_observe_module";
extern "C" {
using ModuleEntry = const Module*();
}

// A number that changes when the layout of the records changes. By it dlctl refuses a module of the same release that
// was built with other records.
constexpr size_t record_shape() {
  return (sizeof(NodeRecord) * 1024 + sizeof(SwitchRecord)) * 1024 + sizeof(JobRecord) + sizeof(EndedRecord) +
         sizeof(Records);
}

}  // namespace dl::observe
