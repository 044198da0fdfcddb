// SPDX-License-Identifier: Apache-2.0
// Does what strided.h does, for memory on devices, with as few copies as possible.
#pragma once

#include "checkpoint/device/device_memory.h"
#include "checkpoint/device/strided.h"

namespace dl::ckpt {

// As StridedMap::gather, scatter and unpack; `memory` lies at `place`. Done after copies->wait(). Runs at even
// distances are one copy; where there are none (a transposed matrix has a run for each element, yet one copy for each
// column), each run is a copy.
Status gather_from_device(const StridedMap& map, uint64_t from, uint64_t to, const MemoryPlace& place,
                          const unsigned char* memory, unsigned char* stored, DeviceCopies* copies);
Status scatter_to_device(const StridedMap& map, uint64_t from, uint64_t to, const unsigned char* stored,
                         const MemoryPlace& place, unsigned char* memory, DeviceCopies* copies);
// *in: the next byte of what was packed.
Status unpack_to_device(const StridedMap& map, uint64_t from, uint64_t to, const unsigned char** in,
                        const MemoryPlace& place, unsigned char* memory, DeviceCopies* copies);

}  // namespace dl::ckpt
