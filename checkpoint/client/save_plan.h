// SPDX-License-Identifier: Apache-2.0
// Plans what each rank writes in a save. A pure function of the registered state, the rank, the world size and, for
// replicated boxes, their holders, so ranks need not ask one another.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/client/holders.h"
#include "checkpoint/client/registry.h"
#include "checkpoint/client/spread.h"
#include "checkpoint/engine/save_job.h"
#include "checkpoint/engine/write_item.h"
#include "checkpoint/group/messages.h"

namespace dl::ckpt {

// From this number on small tensors are packed (format/packed_index.h). Fewer become datasets with names of their own,
// which are easier to use with h5py.
constexpr uint64_t kPackFrom = 5000;

// What one rank has to write, and its report for rank 0. Items point into the memory of the registered tensors and
// blobs.
struct WorkList {
  std::vector<WriteItem> items;
  Part part;
  std::optional<PackedRecord> packed;        // packed tensors, whose places are not known yet
  std::shared_ptr<const std::string> index;  // their index, which an item borrows
  // For each item: the record of the part that receives its place.
  struct Target {
    enum Kind : unsigned char { kShard, kBlob, kPackedData, kPackedIndex };
    Kind kind;
    size_t record, shard;  // indexes; shard only for kShard, record for kShard and kBlob
  };
  std::vector<Target> targets;
};

// The part of the plan that concerns tensors. It stays valid as long as registry.tensors_version() and the holders stay
// the same, and should be kept, since it takes 4 microseconds for each tensor. holders: after Holders::learn() if
// registry.needs_holders() and world_size > 1; otherwise nullptr will do. At most max_files ranks write replicated
// data. A rank other than 0 without items writes no file.
WorkList plan_tensors(const Registry& registry, int rank, int world_size, const Holders* holders = nullptr,
                      int max_files = kDefaultMaxFiles);
WorkList plan_blobs(const Registry& registry, int rank);

// Everything that a save writes: first the tensors, then the blobs.
struct SavePlan {
  std::shared_ptr<const WorkList> tensors;
  WorkList blobs;

  bool empty() const { return tensors->items.empty() && blobs.items.empty(); }
  std::vector<WriteItem> items() const;
  // The report, once everything is written. places: for each item of items(), the number of its file and its offset in
  // it.
  Part part(const std::vector<SaveJob::Place>& places, std::vector<FileRecord> files) const;
};

}  // namespace dl::ckpt
