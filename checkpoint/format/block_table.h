// SPDX-License-Identifier: Apache-2.0
// The block table: every byte of a data file, except its user block and the table itself, belongs to exactly one block,
// and each block has a checksum. Tensors of 64 KiB and more have blocks of their own, so that an unchanged tensor has
// unchanged blocks; small ones share blocks with the HDF5 metadata around them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/hash.h"
#include "common/base/result.h"

namespace dl::ckpt {

constexpr uint64_t kBlockBytes = uint64_t{4} << 20;      // writers cut blocks of at most this many bytes
constexpr uint64_t kMaxBlockBytes = uint64_t{64} << 20;  // readers accept up to this many
constexpr uint64_t kOwnBlocksFrom = 65536;               // data of this many bytes and more gets blocks of its own
constexpr size_t kTableRowBytes = 32;                    // offset u64, length u64, hash 16 bytes

struct Extent {
  uint64_t at = 0;
  uint64_t length = 0;
  uint64_t end() const { return at + length; }
};

struct Block {
  uint64_t at = 0;      // bytes from the start of the file
  uint64_t length = 0;  // bytes, 1..kMaxBlockBytes
  Hash128 hash;
  uint64_t end() const { return at + length; }
};

// Cuts [begin, end) into blocks: at the borders of the large extents, every kBlockBytes inside, and around the hole.
// `large` is sorted and disjoint; the hole is the place of the table and lies in none of them. The hashes are left
// zero.
std::vector<Block> cut_blocks(uint64_t begin, uint64_t end, const Extent& hole, const std::vector<Extent>& large);

// The rows in their stored form, and their hash (the root hash of the file).
std::string encode_table(const std::vector<Block>& blocks);
Hash128 table_root(const std::vector<Block>& blocks);

// OK if the blocks are sorted, disjoint, of allowed lengths, and cover [begin, end) exactly, together with the hole.
Status check_table(const std::vector<Block>& blocks, uint64_t begin, uint64_t end, const Extent& hole);

// The index of the block that contains byte `at`, or blocks.size() if there is none.
size_t find_block(const std::vector<Block>& blocks, uint64_t at);

}  // namespace dl::ckpt
