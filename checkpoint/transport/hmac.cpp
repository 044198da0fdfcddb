// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/transport/hmac.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include <cstdint>

namespace dl::ckpt {

Digest hmac_sha256(std::string_view key, std::string_view bytes) {
  hmac_sha256_ctx context;
  hmac_sha256_set_key(&context, key.size(), reinterpret_cast<const uint8_t*>(key.data()));
  hmac_sha256_update(&context, bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
  Digest digest{};
  hmac_sha256_digest(&context, digest.size(), digest.data());
  return digest;
}

bool same_digest(const Digest& a, const Digest& b) {
  return memeql_sec(a.data(), b.data(), a.size()) != 0;
}

}  // namespace dl::ckpt
