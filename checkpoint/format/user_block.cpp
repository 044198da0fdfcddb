// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/user_block.h"

#include <cstring>

namespace dl::ckpt {
namespace {

constexpr char kMagic[8] = {'D', 'L', 'C', 'K', 'P', 'T', 'H', '5'};
constexpr uint32_t kStateComplete = 1;
constexpr size_t kChecksumAt = kUserBlockBytes - kHashBytes;

}  // namespace

std::array<unsigned char, kUserBlockBytes> encode_user_block(const UserBlock& block) {
  std::array<unsigned char, kUserBlockBytes> bytes{};
  unsigned char* p = bytes.data();
  std::memcpy(p, kMagic, sizeof kMagic);
  put_u32(p + 8, kFormatVersion);
  put_u32(p + 12, block.complete ? kStateComplete : 0);
  put_u64(p + 16, block.save_id);
  put_u64(p + 24, static_cast<uint64_t>(block.step));
  put_u32(p + 32, block.writer);
  put_u32(p + 36, block.world_size);
  put_u64(p + 40, block.file_size);
  put_u64(p + 48, block.table_at);
  put_u64(p + 56, block.block_count);
  put_hash(block.root, p + 64);
  put_hash(hash_bytes(p, kChecksumAt), p + kChecksumAt);
  return bytes;
}

Result<UserBlock> decode_user_block(const unsigned char* p) {
  if (std::memcmp(p, kMagic, sizeof kMagic) != 0)
    return Error{Errc::kCorrupt, "it does not begin with DLCKPTH5: not a data file of a checkpoint, or not written"};
  if (get_hash(p + kChecksumAt) != hash_bytes(p, kChecksumAt))
    return Error{Errc::kCorrupt, "the checksum of its user block is wrong"};
  const uint32_t version = get_u32(p + 8);
  if (version != kFormatVersion)
    return Error{Errc::kUnsupported, "it has format version " + std::to_string(version) +
                                         "; this program reads version " + std::to_string(kFormatVersion)};
  UserBlock block;
  block.complete = get_u32(p + 12) == kStateComplete;
  block.save_id = get_u64(p + 16);
  block.step = static_cast<int64_t>(get_u64(p + 24));
  block.writer = get_u32(p + 32);
  block.world_size = get_u32(p + 36);
  block.file_size = get_u64(p + 40);
  block.table_at = get_u64(p + 48);
  block.block_count = get_u64(p + 56);
  block.root = get_hash(p + 64);
  if (!block.complete) return Error{Errc::kCorrupt, "it was not written to its end"};
  return block;
}

}  // namespace dl::ckpt
