// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert/float_value.h"

#include <cmath>
#include <limits>

namespace dl::ckpt {
namespace {

// Computes sign * 1.mantissa * 2^(exponent - bias); if the exponent field is 0, the leading 1 is 0 (a subnormal
// number).
float compose(bool negative, int exponent, int mantissa, int mantissa_bits, int bias) {
  const int lead = exponent == 0 ? 0 : 1 << mantissa_bits;
  const int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  const float value = std::ldexp(static_cast<float>(lead + mantissa), power);
  return negative ? -value : value;
}

}  // namespace

float f16_value(uint16_t bits) noexcept {
  const bool negative = (bits & 0x8000U) != 0;
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  if (exponent != 0x1f) return compose(negative, exponent, mantissa, 10, 15);
  if (mantissa != 0) return std::numeric_limits<float>::quiet_NaN();
  return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
}

float f8e4m3_value(uint8_t bits) noexcept {
  if ((bits & 0x7fU) == 0x7fU) return std::numeric_limits<float>::quiet_NaN();
  return compose((bits & 0x80U) != 0, bits >> 3 & 0xf, bits & 7, 3, 7);
}

float f8e5m2_value(uint8_t bits) noexcept {
  return f16_value(static_cast<uint16_t>(bits << 8));
}

}  // namespace dl::ckpt
