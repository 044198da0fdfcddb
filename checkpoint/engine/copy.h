// SPDX-License-Identifier: Apache-2.0
// Copying tensors into staging memory: what the training loop waits for.
#pragma once

#include "checkpoint/engine/write_item.h"

namespace dl::ckpt {

// memcpy with stores that bypass the caches: what is copied is not looked at again soon, and lines that are only
// written need not be read first. `to` and `from` may have any alignment.
void copy_past_caches(void* to, const void* from, size_t size) noexcept;

// Bytes [begin, begin + size) of the item as it lies in the file. Elements may be cut anywhere. Those of memory on
// devices are there after copies->wait(). Throws std::bad_alloc.
Status copy_item(const WriteItem& item, uint64_t begin, size_t size, void* to, DeviceCopies* copies);

// What the first copy of a save has to wait for: see wait_for_queued_work().
Status await_devices(const std::vector<WriteItem>& items);

}  // namespace dl::ckpt
