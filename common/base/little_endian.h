// SPDX-License-Identifier: Apache-2.0
// Whole numbers in files of ours, the lowest byte first. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace dl {

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
constexpr bool kLittleEndian = true;  // bytes lie in memory as they do in files, and are copied
#else
constexpr bool kLittleEndian = false;
#endif

// Writes the lowest `bytes` bytes of the value, at most 8, to `at`; returns what follows.
inline char* store_little(char* at, uint64_t value, size_t bytes) {
  if (kLittleEndian)
    std::memcpy(at, &value, bytes);
  else
    for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<char>(value >> (8 * i) & 0xff);
  return at + bytes;
}
// The same at the end of a text.
inline void put_little(std::string* to, uint64_t value, size_t bytes) {
  char text[8];
  store_little(text, value, bytes);
  to->append(text, bytes);
}

// The number of `bytes` bytes, at most 8, at that place. Precondition: at + bytes <= from.size().
inline uint64_t get_little(std::string_view from, size_t at, size_t bytes) {
  uint64_t value = 0;
  if (kLittleEndian)
    std::memcpy(&value, from.data() + at, bytes);
  else
    for (size_t i = 0; i < bytes; ++i) value |= uint64_t{static_cast<unsigned char>(from[at + i])} << (8 * i);
  return value;
}

}  // namespace dl
