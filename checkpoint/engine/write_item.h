// SPDX-License-Identifier: Apache-2.0
// What one rank writes into a data file.
#pragma once

#include <memory>

#include "checkpoint/device/device_memory.h"
#include "checkpoint/engine/pack_source.h"
#include "checkpoint/format/layout.h"
#include "checkpoint/format/names.h"

namespace dl::ckpt {

// A dataset and the bytes that go into it: dataset->box, in C order in the file.
struct WriteItem {
  std::shared_ptr<const LayoutItem> dataset;  // never nullptr; shared, since each save copies the items of the former
  const void* data = nullptr;                 // borrowed; first element of the box
  MemoryPlace place;                          // of data; unless place.on_host(), only copy_item() may touch it
  Dims strides;                               // bytes between elements of each dimension; empty: C order without gaps
  bool frozen = false;                        // registered with DLCKPT_FROZEN
  // Instead of data: bytes gathered from many places. `place` is then one of those that are on devices.
  std::shared_ptr<const PackSource> pack;
  uint64_t bytes() const { return volume(dataset->box.extent).value_or(0) * dataset->dtype->size; }
};

// Whose file it is; goes into its user block.
struct FileIdentity {
  CheckpointName name;
  uint32_t writer = 0;
  uint32_t world_size = 1;
};

}  // namespace dl::ckpt
