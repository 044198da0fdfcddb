// SPDX-License-Identifier: Apache-2.0
// Writes one rank's data file: lay out, reserve the space, write block by block with checksums, table, user block,
// fsync.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/layout.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/store/io.h"

namespace dl::ckpt {

// A dataset and the bytes that go into it: item.box, in C order in the file.
struct WriteItem {
  LayoutItem item;
  const void* data = nullptr;  // borrowed; first element of the box
  Dims strides;                // bytes between elements of each dimension; empty: C order without gaps
  bool frozen = false;         // registered with DLCKPT_FROZEN
};

struct WrittenFile {
  FileRecord record;
  std::vector<uint64_t> at;  // offset of each item's data; 0 if empty
};

struct FileIdentity {
  CheckpointName name;
  uint32_t writer = 0;
  uint32_t world_size = 1;
};

// The file must not exist. It is durable on success, and removed on error.
Result<WrittenFile> write_data_file(Io& io, const std::string& directory, const FileIdentity& identity,
                                    const std::vector<WriteItem>& items);

}  // namespace dl::ckpt
