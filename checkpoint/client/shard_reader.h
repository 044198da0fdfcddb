// SPDX-License-Identifier: Apache-2.0
// Reads from a checkpoint exactly the bytes that what is registered needs, whatever world size wrote it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/client/registry.h"
#include "checkpoint/client/strided.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/store/io.h"

namespace dl::ckpt {

// A stored shard of which a registered part wants something.
struct ShardRead {
  const ShardRecord* shard;  // in the manifest
  uint64_t bytes;            // of the shard
  unsigned char* memory;     // the part's first element
  StridedMap map;
};
using ReadPlan = std::vector<ShardRead>;  // by file, then place in the file: each block is read once

// kConflict: a tensor is missing, or has another dtype or shape. Points into both arguments.
Result<ReadPlan> plan_reads(const Manifest& manifest, const Registry& registry);

// Fills the registered memory. Every block is verified before bytes of it are copied.
Status execute_reads(Io& io, const std::string& checkpoint, const Manifest& manifest, const ReadPlan& plan);

// The blobs of all ranks and those of `rank`.
Result<std::map<std::string, std::string>> read_blobs(Io& io, const std::string& checkpoint, const Manifest& manifest,
                                                      int rank);

}  // namespace dl::ckpt
