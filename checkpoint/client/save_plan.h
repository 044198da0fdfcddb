// SPDX-License-Identifier: Apache-2.0
// Who writes what in a save: a pure function of what is registered, the rank and the world size (and, for replicated
// boxes, of who holds which), so that ranks need not ask one another.
#pragma once

#include <vector>

#include "checkpoint/client/holders.h"
#include "checkpoint/client/messages.h"
#include "checkpoint/client/registry.h"
#include "checkpoint/client/spread.h"
#include "checkpoint/engine/write_item.h"

namespace dl::ckpt {

// Everything one rank has to write, and what it will say about it. Items borrow the memory of tensors and blobs from
// the registry.
struct WorkList {
  std::vector<WriteItem> items;
  Part part;
  // For each item, which record of the part its place belongs to.
  struct Target {
    bool blob;
    size_t record, shard;
  };
  std::vector<Target> targets;

  // Item `item` was stored in the rank's file number `file` at byte `at`.
  void set_place(size_t item, size_t file, uint64_t at);
};

// holders: after Holders::learn(), where registry.needs_holders() and world_size > 1; else nullptr will do.
// Replicated data goes to at most max_files ranks. A rank other than 0 without items writes no file.
WorkList plan_save(const Registry& registry, int rank, int world_size, const Holders* holders = nullptr,
                   int max_files = kDefaultMaxFiles);

}  // namespace dl::ckpt
