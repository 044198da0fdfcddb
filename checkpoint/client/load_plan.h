// SPDX-License-Identifier: Apache-2.0
// Plans a restore: which rank reads which blocks, and to which other ranks it sends which bytes. A pure function of the
// manifest and of what every rank wants, so all ranks compute the same plan. Exactly one rank reads each needed block,
// one of those that need most of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/client/registry.h"
#include "checkpoint/device/strided.h"
#include "checkpoint/format/manifest.h"

namespace dl::ckpt {

// The boxes of one tensor (by its index in the manifest) that a rank wants. Its blobs follow from its rank.
struct Want {
  size_t tensor;
  std::vector<Box> boxes;
};
using Wants = std::vector<Want>;  // sorted by tensor

// kConflict if a registered tensor is missing in the checkpoint, or has another dtype or shape there.
Status check_fit(const Manifest& manifest, const Registry& registry);
// What this rank wants, as text: one line for each tensor, "index: boxes". Precondition: check_fit() holds.
std::string format_wants(const Manifest& manifest, const Registry& registry);
Result<Wants> parse_wants(std::string_view text, const Manifest& manifest);

// The ranks that want the same box of a stored region (a shard of a tensor, or a blob).
struct Taker {
  Box box;
  size_t box_number;       // index into the rank's own boxes of this tensor
  std::vector<int> ranks;  // sorted; each rank may hold the box with other strides
  StridedMap map;          // from the region to a dense box
};

struct Region {
  size_t file;
  uint64_t at, bytes;
  const TensorRecord* tensor;  // the region is a shard of this tensor, or
  const BlobRecord* blob;
  const ShardRecord* shard;  // the shard; only set together with tensor
  std::vector<Taker> takers;
  uint64_t end() const { return at + bytes; }
};

// Blocks near one another in a file. One rank reads them with one read, including the gaps between them, and sends one
// message to each other rank that needs a part of them.
struct Granule {
  size_t file;
  std::vector<size_t> blocks;   // those of which a rank wants something; sorted
  std::vector<size_t> regions;  // those that overlap it; sorted
  int reader = 0;
  std::vector<int> ranks;  // the ranks that take something; sorted
  uint64_t at = 0, bytes = 0;
  uint64_t needed = 0;  // bytes of `blocks`; the remaining bytes are the gaps between them
};

struct LoadPlan {
  std::vector<Region> regions;
  std::vector<Granule> granules;   // sorted by file, then by place
  std::vector<int> file_checkers;  // by file: the rank that checks its user block and table
  uint64_t bytes = 0;              // bytes of all needed blocks
};

struct LoadOptions {
  bool with_blobs = true;
  // A rank that restores by itself: only its own wants count, and it reads everything. -1: all ranks restore together.
  int alone = -1;
};
// `wants` has one entry for each rank. The plan points into the manifest.
LoadPlan plan_load(const Manifest& manifest, const std::vector<Wants>& wants, const LoadOptions& options);

}  // namespace dl::ckpt
