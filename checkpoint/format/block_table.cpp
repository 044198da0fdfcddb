// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/block_table.h"

#include <algorithm>

namespace dl::ckpt {
namespace {

void cut(uint64_t begin, uint64_t end, std::vector<Block>* out) {
  for (uint64_t at = begin; at < end; at += kBlockBytes)
    out->push_back(Block{at, std::min(kBlockBytes, end - at), Hash128{}});
}

// Cuts a range that contains no large data into blocks, without the hole.
void cut_around(uint64_t begin, uint64_t end, const Extent& hole, std::vector<Block>* out) {
  if (hole.length > 0 && hole.at < end && hole.end() > begin) {
    cut(begin, std::max(begin, hole.at), out);
    cut(std::min(end, hole.end()), end, out);
  } else {
    cut(begin, end, out);
  }
}

}  // namespace

std::vector<Block> cut_blocks(uint64_t begin, uint64_t end, const Extent& hole, const std::vector<Extent>& large) {
  std::vector<Block> blocks;
  uint64_t at = begin;
  for (const Extent& extent : large) {
    cut_around(at, extent.at, hole, &blocks);
    cut(extent.at, extent.end(), &blocks);
    at = extent.end();
  }
  cut_around(at, end, hole, &blocks);
  return blocks;
}

std::string encode_table(const std::vector<Block>& blocks) {
  std::string bytes(blocks.size() * kTableRowBytes, '\0');
  auto* row = reinterpret_cast<unsigned char*>(bytes.data());
  for (const Block& block : blocks) {
    put_u64(row, block.at);
    put_u64(row + 8, block.length);
    put_hash(block.hash, row + 16);
    row += kTableRowBytes;
  }
  return bytes;
}

Hash128 table_root(const std::vector<Block>& blocks) {
  const std::string bytes = encode_table(blocks);
  return hash_bytes(bytes.data(), bytes.size());
}

Status check_table(const std::vector<Block>& blocks, uint64_t begin, uint64_t end, const Extent& hole) {
  uint64_t at = begin;
  const auto skip_hole = [&] {
    if (hole.length > 0 && at == hole.at) at = hole.end();
  };
  for (const Block& block : blocks) {
    skip_hole();
    if (block.at != at || block.length == 0 || block.length > kMaxBlockBytes || block.length > end - at)
      return Error{Errc::kCorrupt, "its block table does not cover the file: block at " + std::to_string(block.at) +
                                       " of " + std::to_string(block.length) + " bytes where byte " +
                                       std::to_string(at) + " should follow"};
    at = block.end();
  }
  skip_hole();
  if (at != end)
    return Error{Errc::kCorrupt, "its block table ends at byte " + std::to_string(at) + " of " + std::to_string(end)};
  return {};
}

size_t find_block(const std::vector<Block>& blocks, uint64_t at) {
  auto next = std::upper_bound(blocks.begin(), blocks.end(), at,
                               [](uint64_t value, const Block& block) { return value < block.at; });
  if (next == blocks.begin()) return blocks.size();
  --next;
  return at < next->end() ? static_cast<size_t>(next - blocks.begin()) : blocks.size();
}

}  // namespace dl::ckpt
