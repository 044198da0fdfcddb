// SPDX-License-Identifier: Apache-2.0
// Does for memory on devices what strided.h does for host memory, with as few copies as possible.
#pragma once

#include "checkpoint/device/device_memory.h"
#include "checkpoint/device/strided.h"

namespace dl::ckpt {

// As StridedMap::gather, scatter and unpack, for `memory` at `place`. The copies are complete after copies->wait().
// Runs at equal distances are one copy; any other run is a copy of its own. (A transposed matrix has a run for each
// element, but needs only one copy for each column.)
Status gather_from_device(const StridedMap& map, uint64_t from, uint64_t to, const MemoryPlace& place,
                          const unsigned char* memory, unsigned char* stored, DeviceCopies* copies);
Status scatter_to_device(const StridedMap& map, uint64_t from, uint64_t to, const unsigned char* stored,
                         const MemoryPlace& place, unsigned char* memory, DeviceCopies* copies);
// *in points to the next byte of the packed data.
Status unpack_to_device(const StridedMap& map, uint64_t from, uint64_t to, const unsigned char** in,
                        const MemoryPlace& place, unsigned char* memory, DeviceCopies* copies);

}  // namespace dl::ckpt
