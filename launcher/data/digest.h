// SPDX-License-Identifier: Apache-2.0
// Checksums of files: those that servers tell, and a fast one of our own by which a file in the cache is verified.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::data {

enum class DigestKind { kSha256, kSha1, kMd5 };

class Digest {
 public:
  explicit Digest(DigestKind kind);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  void add(std::string_view data);
  // Lower-case hexadecimal digits. Nothing may be added afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
  DigestKind kind_;
};

// Whether `identity` ("sha256:HEX", "sha1:HEX", "md5:HEX") is a checksum that can be computed here.
bool is_checksum(std::string_view identity);
// Compares data, or what is read from an open file from its beginning. kCorrupt if it differs; kIo "PATH: ..." if it
// cannot be read; kIo, too, for an identity that is no checksum.
Status compare_checksum(std::string_view data, std::string_view identity, const std::string& path);
Status verify_checksum(int fd, std::string_view identity, const std::string& path);

// Files are fetched and hashed in chunks of this size.
constexpr uint64_t kChunkBytes = 64 << 20;
uint64_t fast_hash(std::string_view chunk);
// "xxh3:" and 16 digits: the hash of the only chunk, or that of the hashes of all of them. An empty file has none.
std::string fast_sum(const std::vector<uint64_t>& chunks);
// The same of an open file from its beginning.
Result<std::string> fast_sum_of(int fd, const std::string& path);

// The hash of a chunk that comes in parts.
class ChunkHash {
 public:
  ChunkHash();
  ~ChunkHash();
  ChunkHash(const ChunkHash&) = delete;
  ChunkHash& operator=(const ChunkHash&) = delete;
  void add(std::string_view data);
  // The hash of what was added; the next chunk begins.
  uint64_t take();

 private:
  void* state_;
};

}  // namespace dl::data
