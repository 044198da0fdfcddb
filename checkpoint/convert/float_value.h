// SPDX-License-Identifier: Apache-2.0
// The exact values of the small floating point types. Each of these values is a float, too.
#pragma once

#include <cstdint>
#include <cstring>

namespace dl::ckpt {

float f16_value(uint16_t bits) noexcept;
// Bits 1-4-3, bias 7, no infinity; 0x7f and 0xff are NaN; the largest value is 448.
float f8e4m3_value(uint8_t bits) noexcept;
// Bits 1-5-2, bias 15, with infinities: the upper half of a float16.
float f8e5m2_value(uint8_t bits) noexcept;

// The upper half of a float32.
inline float bf16_value(uint16_t bits) noexcept {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

}  // namespace dl::ckpt
