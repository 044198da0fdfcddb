// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/digest.h"

#include <fmt/core.h>
#include <nettle/md5.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <functional>
#include <vector>

#include "launcher/data/fault.h"

namespace dl::data {
namespace {

constexpr size_t kReadBytes = 1 << 20;

Status read_whole(int fd, const std::string& path, const std::function<void(std::string_view)>& take) {
  std::vector<char> buffer(kReadBytes);
  off_t at = 0;
  for (;;) {
    const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return local_error("read " + path, errno);
    if (n == 0) return {};
    take({buffer.data(), static_cast<size_t>(n)});
    at += n;
  }
}

bool kind_of(std::string_view name, DigestKind* kind) {
  if (name == "sha256")
    *kind = DigestKind::kSha256;
  else if (name == "sha1")
    *kind = DigestKind::kSha1;
  else if (name == "md5")
    *kind = DigestKind::kMd5;
  else
    return false;
  return true;
}

}  // namespace

struct Digest::State {
  sha256_ctx sha256;
  sha1_ctx sha1;
  md5_ctx md5;
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()), kind_(kind) {
  if (kind_ == DigestKind::kSha256) sha256_init(&state_->sha256);
  if (kind_ == DigestKind::kSha1) sha1_init(&state_->sha1);
  if (kind_ == DigestKind::kMd5) md5_init(&state_->md5);
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::add(std::string_view data) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  if (kind_ == DigestKind::kSha256) sha256_update(&state_->sha256, data.size(), bytes);
  if (kind_ == DigestKind::kSha1) sha1_update(&state_->sha1, data.size(), bytes);
  if (kind_ == DigestKind::kMd5) md5_update(&state_->md5, data.size(), bytes);
}

std::string Digest::hex() {
  uint8_t bytes[SHA256_DIGEST_SIZE] = {};
  size_t size = SHA256_DIGEST_SIZE;
  if (kind_ == DigestKind::kSha256) sha256_digest(&state_->sha256, size, bytes);
  if (kind_ == DigestKind::kSha1) sha1_digest(&state_->sha1, size = SHA1_DIGEST_SIZE, bytes);
  if (kind_ == DigestKind::kMd5) md5_digest(&state_->md5, size = MD5_DIGEST_SIZE, bytes);
  std::string text;
  for (size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

bool is_checksum(std::string_view identity) {
  DigestKind kind{};
  return kind_of(identity.substr(0, identity.find(':')), &kind);
}

namespace {

Status compare_digest(Digest* digest, std::string_view identity, const std::string& path) {
  const size_t colon = identity.find(':');
  const std::string found = digest->hex();
  if (found == identity.substr(colon + 1)) return {};
  return Error{Errc::kCorrupt,
               fmt::format("{}: its checksum is {}:{}, not {}", path, identity.substr(0, colon), found, identity)};
}

}  // namespace

Status compare_checksum(std::string_view data, std::string_view identity, const std::string& path) {
  DigestKind kind{};
  if (!kind_of(identity.substr(0, identity.find(':')), &kind))
    return Error{Errc::kIo, path + ": no checksum to compare it with"};
  Digest digest(kind);
  digest.add(data);
  return compare_digest(&digest, identity, path);
}

Status verify_checksum(int fd, std::string_view identity, const std::string& path) {
  DigestKind kind{};
  if (!kind_of(identity.substr(0, identity.find(':')), &kind))
    return Error{Errc::kIo, path + ": no checksum to compare it with"};
  Digest digest(kind);
  DL_TRY(read_whole(fd, path, [&](std::string_view data) { digest.add(data); }));
  return compare_digest(&digest, identity, path);
}

uint64_t fast_hash(std::string_view chunk) {
  return XXH3_64bits(chunk.data(), chunk.size());
}

std::string fast_sum(const std::vector<uint64_t>& chunks) {
  uint64_t hash = XXH3_64bits("", 0);
  if (chunks.size() == 1) hash = chunks[0];
  if (chunks.size() > 1) {
    std::string bytes;
    for (const uint64_t chunk : chunks)
      for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(chunk >> shift & 0xff));
    hash = fast_hash(bytes);
  }
  return fmt::format("xxh3:{:016x}", hash);
}

Result<std::string> fast_sum_of(int fd, const std::string& path) {
  std::vector<uint64_t> chunks;
  ChunkHash hash;
  uint64_t of_chunk = 0;
  DL_TRY(read_whole(fd, path, [&](std::string_view data) {
    while (!data.empty()) {
      const std::string_view part = data.substr(0, kChunkBytes - of_chunk);
      hash.add(part);
      of_chunk += part.size();
      data.remove_prefix(part.size());
      if (of_chunk == kChunkBytes) chunks.push_back(hash.take()), of_chunk = 0;
    }
  }));
  if (of_chunk > 0) chunks.push_back(hash.take());
  return fast_sum(chunks);
}

ChunkHash::ChunkHash() : state_(XXH3_createState()) {
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}
ChunkHash::~ChunkHash() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}
void ChunkHash::add(std::string_view data) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), data.data(), data.size());
}
uint64_t ChunkHash::take() {
  const uint64_t hash = XXH3_64bits_digest(static_cast<XXH3_state_t*>(state_));
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
  return hash;
}

}  // namespace dl::data
