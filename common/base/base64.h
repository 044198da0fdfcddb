// SPDX-License-Identifier: Apache-2.0
// Bytes as text by base64 (RFC 4648, section 4), by nettle: whoever includes this links it, which Slurm's daemons do
// not load. Pure.
#pragma once

#include <nettle/base64.h>

#include <cstdint>
#include <optional>
#include <string>

namespace dl {

inline std::string to_base64(const std::string& bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_raw(text.data(), bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
  return text;
}

// Nothing if the text is not whole base64.
inline std::optional<std::string> from_base64(const std::string& text) {
  std::string bytes(BASE64_DECODE_LENGTH(text.size()), '\0');
  size_t size = bytes.size();
  base64_decode_ctx context{};
  base64_decode_init(&context);
  if (base64_decode_update(&context, &size, reinterpret_cast<uint8_t*>(bytes.data()), text.size(), text.data()) == 0 ||
      base64_decode_final(&context) == 0)
    return std::nullopt;
  bytes.resize(size);
  return bytes;
}

}  // namespace dl
