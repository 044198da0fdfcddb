// SPDX-License-Identifier: Apache-2.0
// An item that a rank writes into a data file.
#pragma once

#include <memory>

#include "checkpoint/device/device_memory.h"
#include "checkpoint/engine/pack_source.h"
#include "checkpoint/format/layout.h"
#include "checkpoint/format/names.h"

namespace dl::ckpt {

// A dataset and its bytes: those of dataset->box, which are in C order in the file.
struct WriteItem {
  std::shared_ptr<const LayoutItem> dataset;  // never nullptr; shared, since each save copies the items of the former
  const void* data = nullptr;                 // borrowed; first element of the box
  MemoryPlace place;    // the memory of data; unless place.on_host(), only copy_item() may access it
  Dims strides;         // bytes between elements of each dimension; empty: C order without gaps
  bool frozen = false;  // registered with DLCKPT_FROZEN
  // Set instead of data: bytes gathered from many places. If some of them are on devices, `place` is one of those.
  std::shared_ptr<const PackSource> pack;
  uint64_t bytes() const { return volume(dataset->box.extent).value_or(0) * dataset->dtype->size; }
};

// The checkpoint and rank to which a file belongs; its user block has them.
struct FileIdentity {
  CheckpointName name;
  uint32_t writer = 0;
  uint32_t world_size = 1;
};

}  // namespace dl::ckpt
