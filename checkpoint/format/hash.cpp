// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/hash.h"

#include <xxhash.h>

#include <new>

namespace dl::ckpt {

Hash128 hash_bytes(const void* data, size_t size) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  return Hash128{hash.high64, hash.low64};
}

struct Hasher::State {
  XXH3_state_t* xxh;
};

Hasher::Hasher() : state_(new State{XXH3_createState()}) {
  if (!state_->xxh) {
    delete state_;
    throw std::bad_alloc();
  }
  reset();
}
Hasher::~Hasher() {
  XXH3_freeState(state_->xxh);
  delete state_;
}
void Hasher::reset() noexcept {
  XXH3_128bits_reset(state_->xxh);
}
void Hasher::update(const void* data, size_t size) noexcept {
  XXH3_128bits_update(state_->xxh, data, size);
}
Hash128 Hasher::digest() const noexcept {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return Hash128{hash.high64, hash.low64};
}

std::string to_hex(const Hash128& hash) {
  static const char digits[] = "0123456789abcdef";
  std::string text(kHashHexDigits, '0');
  for (size_t i = 0; i < 16; ++i) {
    text[i] = digits[(hash.high >> (60 - 4 * i)) & 15];
    text[16 + i] = digits[(hash.low >> (60 - 4 * i)) & 15];
  }
  return text;
}

std::optional<Hash128> hash_from_hex(std::string_view hex) {
  if (hex.size() != kHashHexDigits) return std::nullopt;
  uint64_t half[2] = {0, 0};
  for (size_t i = 0; i < kHashHexDigits; ++i) {
    const char c = hex[i];
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    half[i / 16] = half[i / 16] << 4 | digit;
  }
  return Hash128{half[0], half[1]};
}

void put_hash(const Hash128& hash, unsigned char* out) noexcept {
  for (int i = 0; i < 8; ++i) {
    out[i] = static_cast<unsigned char>(hash.high >> (56 - 8 * i));
    out[8 + i] = static_cast<unsigned char>(hash.low >> (56 - 8 * i));
  }
}

Hash128 get_hash(const unsigned char* in) noexcept {
  Hash128 hash;
  for (int i = 0; i < 8; ++i) {
    hash.high = hash.high << 8 | in[i];
    hash.low = hash.low << 8 | in[8 + i];
  }
  return hash;
}

}  // namespace dl::ckpt
