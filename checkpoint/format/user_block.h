// SPDX-License-Identifier: Apache-2.0
// The user block: the first 4 KiB of each data file, which HDF5 leaves to us. One small read, without libhdf5, shows to
// which checkpoint and rank the file belongs, and whether it was written completely.
#pragma once

#include <array>
#include <cstdint>

#include "checkpoint/format/hash.h"
#include "common/base/result.h"

namespace dl::ckpt {

constexpr uint64_t kUserBlockBytes = 4096;
constexpr uint32_t kFormatVersion = 1;

// All integers are little-endian; dlckpt-format(5) lists the byte offsets.
struct UserBlock {
  uint64_t save_id = 0;      // the same in all files of one checkpoint, and in its manifest
  int64_t step = 0;          // train step
  uint32_t writer = 0;       // rank that wrote the file
  uint32_t world_size = 0;   // ranks of that save
  uint64_t file_size = 0;    // bytes, this block included
  uint64_t table_at = 0;     // place of the block table in the file
  uint64_t block_count = 0;  // number of its rows in use
  Hash128 root;              // hash of these rows
  bool complete = false;     // set when everything else was written
};

std::array<unsigned char, kUserBlockBytes> encode_user_block(const UserBlock& block);
// Errors: kCorrupt (magic, checksum, state), kUnsupported (a newer version of the format).
Result<UserBlock> decode_user_block(const unsigned char* bytes);

}  // namespace dl::ckpt
