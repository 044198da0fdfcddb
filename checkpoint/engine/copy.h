// SPDX-License-Identifier: Apache-2.0
// Copies tensors into staging memory. The training loop waits for this.
#pragma once

#include "checkpoint/engine/write_item.h"

namespace dl::ckpt {

// memcpy with stores that bypass the caches: the copy is not read again soon, and the CPU need not load cache lines
// that it only writes. `to` and `from` may have any alignment.
void copy_past_caches(void* to, const void* from, size_t size) noexcept;

// Copies the bytes [begin, begin + size) of the item, counted as it lies in the file. Elements may be cut anywhere.
// Bytes from memory on devices have arrived only after copies->wait(). Throws std::bad_alloc.
Status copy_item(const WriteItem& item, uint64_t begin, size_t size, void* to, DeviceCopies* copies);

// To be called before the first copy of a save: see wait_for_queued_work().
Status await_devices(const std::vector<WriteItem>& items);

}  // namespace dl::ckpt
