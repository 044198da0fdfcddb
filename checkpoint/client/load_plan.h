// SPDX-License-Identifier: Apache-2.0
// Plans a restore: which rank reads which blocks, and to which other ranks it sends which bytes. A pure function of the
// manifest and of what every rank wants, so all ranks compute the same plan. Each needed block is read by exactly one
// rank, one of those that need most of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/client/registry.h"
#include "checkpoint/device/strided.h"
#include "checkpoint/format/manifest.h"

namespace dl::ckpt {

// What one rank wants: boxes of tensors by index in the manifest; blobs follow from its rank.
struct Want {
  size_t tensor;
  std::vector<Box> boxes;
};
using Wants = std::vector<Want>;  // by rising index

// kConflict: a registered tensor is missing in the checkpoint, or has another dtype or shape.
Status check_fit(const Manifest& manifest, const Registry& registry);
// For what fits. As text: one line for each tensor, "index: boxes".
std::string format_wants(const Manifest& manifest, const Registry& registry);
Result<Wants> parse_wants(std::string_view text, const Manifest& manifest);

// The ranks that want the same box of a stored region (a shard of a tensor, or a blob).
struct Taker {
  Box box;
  size_t box_number;       // of the rank's own boxes of this tensor
  std::vector<int> ranks;  // rising; each may hold the box in other strides
  StridedMap map;          // to a dense box
};

struct Region {
  size_t file;
  uint64_t at, bytes;
  const TensorRecord* tensor;  // or
  const BlobRecord* blob;
  const ShardRecord* shard;  // with tensor
  std::vector<Taker> takers;
  uint64_t end() const { return at + bytes; }
};

// Blocks near one another in a file. One rank reads them with one read, including the gaps between them, and sends one
// message to each other rank that needs part of them.
struct Granule {
  size_t file;
  std::vector<size_t> blocks;   // of which something is wanted, rising
  std::vector<size_t> regions;  // that lie in it, rising
  int reader = 0;
  std::vector<int> ranks;  // that take something, rising
  uint64_t at = 0, bytes = 0;
  uint64_t needed = 0;  // bytes of `blocks`: the rest lies between them
};

struct LoadPlan {
  std::vector<Region> regions;
  std::vector<Granule> granules;   // by file, then place
  std::vector<int> file_checkers;  // by file: who checks its user block and table
  uint64_t bytes = 0;              // of all blocks that are needed
};

struct LoadOptions {
  bool with_blobs = true;
  int alone =
      -1;  // a rank that restores by itself: only its own wants count, and it reads everything; -1: all ranks together
};
// wants: by rank. The plan points into the manifest.
LoadPlan plan_load(const Manifest& manifest, const std::vector<Wants>& wants, const LoadOptions& options);

}  // namespace dl::ckpt
