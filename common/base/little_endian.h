// SPDX-License-Identifier: Apache-2.0
// Whole numbers in files of ours, the lowest byte first. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dl {

// Appends the lowest `bytes` bytes of the value, at most 8.
inline void put_little(std::string* to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// The number of `bytes` bytes, at most 8, at that place. Precondition: at + bytes <= from.size().
inline uint64_t get_little(std::string_view from, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t{static_cast<unsigned char>(from[at + i])} << (8 * i);
  return value;
}

}  // namespace dl
