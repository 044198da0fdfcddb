// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/elements.h"

#include <cmath>
#include <cstring>
#include <type_traits>

namespace dl::learner {
namespace {

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
float float_of(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// How an element is stored, and in which type calculations use it.
template <typename T>
struct Plain {
  using Stored = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct Half {
  using Stored = uint16_t;
  static float load(uint16_t bits) { return half_to_float(bits); }
  static uint16_t store(float value) { return float_to_half(value); }
};
struct Bfloat {
  using Stored = uint16_t;
  static float load(uint16_t bits) { return bfloat_to_float(bits); }
  static uint16_t store(float value) { return float_to_bfloat(value); }
};

// Calls body with the tag of dtype; does nothing for an unknown dtype.
template <typename Body>
void with_type(int dtype, Body&& body) {
  switch (dtype) {
    case DLLEARNER_F32:
      return body(Plain<float>{});
    case DLLEARNER_F64:
      return body(Plain<double>{});
    case DLLEARNER_F16:
      return body(Half{});
    case DLLEARNER_BF16:
      return body(Bfloat{});
    case DLLEARNER_I32:
      return body(Plain<int32_t>{});
    case DLLEARNER_I64:
      return body(Plain<int64_t>{});
    case DLLEARNER_U8:
      return body(Plain<uint8_t>{});
    default:
      return;
  }
}

template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;  // unsigned numbers wrap around; overflow of signed ones is undefined
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}
// Whether a counts as the larger of a and b. NaN and signed zeros have a fixed order, too, so that the order of the
// operands does not matter.
template <typename T>
bool larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return true;
    if (std::isnan(b)) return false;
    if (a == b) return !std::signbit(a);
  }
  return a > b;
}
template <typename T>
bool smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return true;
    if (std::isnan(b)) return false;
    if (a == b) return std::signbit(a);
  }
  return a < b;
}

}  // namespace

size_t element_size(int dtype) {
  size_t size = 0;
  with_type(dtype, [&size](auto type) { size = sizeof(typename decltype(type)::Stored); });
  return size;
}

bool is_floating(int dtype) {
  return dtype == DLLEARNER_F32 || dtype == DLLEARNER_F64 || dtype == DLLEARNER_F16 || dtype == DLLEARNER_BF16;
}

bool is_op(int op) {
  return op >= DLLEARNER_SUM && op <= DLLEARNER_MEAN;
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return float_of(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return float_of(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float small = static_cast<float>(fraction) * 0x1p-24F;  // zero or subnormal, which float represents exactly
  return sign != 0 ? -small : small;
}

uint16_t float_to_half(float value) {
  const uint32_t bits = bits_of(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x1ffU));
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // 65520 and more round to infinity
  if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5, whose last bit is worth 2^-24, rounds to the nearest subnormal number.
    const uint32_t rounded = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
    return static_cast<uint16_t>(sign | rounded);
  }
  const uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
}

float bfloat_to_float(uint16_t bits) {
  return float_of(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

void reduce_elements(int dtype, int op, const void* in, void* inout, size_t count) {
  with_type(dtype, [=](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    const auto* a = static_cast<const Stored*>(in);
    auto* b = static_cast<Stored*>(inout);
    for (size_t i = 0; i < count; ++i) {
      const auto x = Type::load(a[i]);
      const auto y = Type::load(b[i]);
      if (op == DLLEARNER_MAX)
        b[i] = larger(x, y) ? a[i] : b[i];
      else if (op == DLLEARNER_MIN)
        b[i] = smaller(x, y) ? a[i] : b[i];
      else
        b[i] = Type::store(sum(x, y));
    }
  });
}

void divide_elements(int dtype, void* data, size_t count, int divisor) {
  if (!is_floating(dtype) || divisor == 1) return;
  with_type(dtype, [=](auto type) {
    using Type = decltype(type);
    auto* values = static_cast<typename Type::Stored*>(data);
    using Value = decltype(Type::load(*values));
    for (size_t i = 0; i < count; ++i)
      values[i] = Type::store(static_cast<Value>(Type::load(values[i]) / static_cast<Value>(divisor)));
  });
}

}  // namespace dl::learner
