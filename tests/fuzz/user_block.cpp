// SPDX-License-Identifier: Apache-2.0
// The user block (its checksum put right when the first byte is odd), and block tables: made by cut_blocks, and any.
#include "checkpoint/format/user_block.h"

#include <cstring>

#include "checkpoint/format/block_table.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

void decode(const std::string& bytes, bool repair) {
  unsigned char block[kUserBlockBytes] = {'D', 'L', 'C', 'K', 'P', 'T', 'H', '5', kFormatVersion, 0, 0, 0, 1};
  if (!repair && bytes.size() >= 32) std::memcpy(block, bytes.data(), 32);
  if (!bytes.empty()) std::memcpy(block + 8, bytes.data(), std::min<size_t>(bytes.size(), 120));
  if (bytes.size() > 2) block[static_cast<unsigned char>(bytes[0]) * 16] ^= static_cast<unsigned char>(bytes[1]);
  if (repair) put_hash(hash_bytes(block, kUserBlockBytes - kHashBytes), block + kUserBlockBytes - kHashBytes);
  auto decoded = decode_user_block(block);
  if (!decoded) return;
  must(decoded->complete, "only what was written to its end is read");
  const auto encoded = encode_user_block(*decoded);
  must(std::memcmp(encoded.data(), block, 80) == 0, "what was read is what was written");
  must(static_cast<bool>(decode_user_block(encoded.data())), "what was written can be read");
}

void any_table(Bytes* input) {
  const uint64_t begin = input->number(2), end = begin + input->number(3);
  const Extent hole{begin + input->number(2), input->number(1)};
  std::vector<Block> blocks(input->u8() % 24);
  uint64_t at = begin;
  for (Block& block : blocks) {
    if (at == hole.at) at = hole.end();
    // Mostly what follows, now and then anything.
    const uint8_t kind = input->u8();
    block.at = kind < 240 ? at : input->number(8);
    block.length = kind < 200 ? 1 + input->number(2) : kind < 230 ? end - at : input->number(8);
    at = block.end();
  }
  if (!check_table(blocks, begin, end, hole)) return;
  uint64_t sum = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    must(blocks[i].length > 0 && blocks[i].at >= begin && blocks[i].end() <= end, "a block lies in the file");
    must(i == 0 || blocks[i].at >= blocks[i - 1].end(), "blocks are sorted and apart");
    must(find_block(blocks, blocks[i].at) == i && find_block(blocks, blocks[i].end() - 1) == i, "a block is found");
    sum += blocks[i].length;
  }
  const bool hole_inside = hole.length > 0 && hole.at >= begin && hole.end() <= end;
  must(sum == end - begin || (hole_inside && sum + hole.length == end - begin), "blocks and hole are the whole");
}

void cut_table(Bytes* input) {
  uint64_t at = kUserBlockBytes;
  Extent hole;
  std::vector<Extent> large;
  const size_t count = input->u8() % 6;
  const size_t hole_behind = input->u8() % 6;
  for (size_t i = 0; i < 6; ++i) {
    at += input->number(2);
    if (i == hole_behind) {
      hole = Extent{at, input->number(2)};
      at = hole.end() + input->number(1);
    }
    if (i >= count) continue;
    const Extent extent{at, kOwnBlocksFrom + input->number(3)};
    large.push_back(extent);
    at = extent.end();
  }
  const uint64_t end = at + input->number(3);
  const std::vector<Block> blocks = cut_blocks(kUserBlockBytes, end, hole, large);
  must(static_cast<bool>(check_table(blocks, kUserBlockBytes, end, hole)), "cut blocks cover the file");
  for (const Extent& extent : large) {
    const size_t first = find_block(blocks, extent.at);
    must(first < blocks.size() && blocks[first].at == extent.at, "large data begin with a block");
  }
}

}  // namespace

void user_block(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const uint8_t mode = input.u8();
  if (mode % 4 < 2) {
    decode(input.rest(), mode % 2 != 0);
  } else if (mode % 4 == 2) {
    any_table(&input);
  } else {
    cut_table(&input);
  }
}

}  // namespace dl::ckpt::fuzz
