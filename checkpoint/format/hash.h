// SPDX-License-Identifier: Apache-2.0
// xxh3-128, the checksum of every block, table, user block and manifest. It detects damage; it is not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dl::ckpt {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Hash128& a, const Hash128& b) { return a.high == b.high && a.low == b.low; }
  friend bool operator!=(const Hash128& a, const Hash128& b) { return !(a == b); }
};

constexpr size_t kHashBytes = 16;
constexpr size_t kHashHexDigits = 32;

Hash128 hash_bytes(const void* data, size_t size) noexcept;

// Computes the same hash from bytes that come piece by piece.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void reset() noexcept;
  void update(const void* data, size_t size) noexcept;
  Hash128 digest() const noexcept;

 private:
  struct State;
  State* state_;
};

// 32 lower-case hex digits, high half first: the form that `xxhsum -H2` prints.
std::string to_hex(const Hash128& hash);
std::optional<Hash128> hash_from_hex(std::string_view hex);
// Writes the hash in the same order as 16 bytes (xxHash's canonical form).
void put_hash(const Hash128& hash, unsigned char* out) noexcept;
Hash128 get_hash(const unsigned char* in) noexcept;

// Little-endian integers, for the binary parts of the format.
inline void put_u32(unsigned char* out, uint32_t value) noexcept {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<unsigned char>(value >> (8 * i));
}
inline void put_u64(unsigned char* out, uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<unsigned char>(value >> (8 * i));
}
inline uint32_t get_u32(const unsigned char* in) noexcept {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<uint32_t>(in[i]) << (8 * i);
  return value;
}
inline uint64_t get_u64(const unsigned char* in) noexcept {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(in[i]) << (8 * i);
  return value;
}

}  // namespace dl::ckpt
