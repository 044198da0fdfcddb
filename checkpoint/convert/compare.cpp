// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <type_traits>

#include "checkpoint/convert/float_value.h"

namespace dl::ckpt {
namespace {

template <typename T>
T load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Ways to read an element: each has the stored type, and a function that returns the value.
template <typename T>
struct Plain {
  using Stored = T;
  static T value(T stored) { return stored; }
};
struct Half {
  using Stored = uint16_t;
  static float value(uint16_t stored) {
    static const auto table = [] {
      auto values = std::make_unique<std::array<float, 65536>>();
      for (size_t i = 0; i < values->size(); ++i) (*values)[i] = f16_value(static_cast<uint16_t>(i));
      return values;
    }();
    return (*table)[stored];
  }
};
struct Brain {
  using Stored = uint16_t;
  static float value(uint16_t stored) { return bf16_value(stored); }
};
template <float (*kValue)(uint8_t)>
struct Tiny {
  using Stored = uint8_t;
  static float value(uint8_t stored) {
    static const auto table = [] {
      std::array<float, 256> values{};
      for (size_t i = 0; i < values.size(); ++i) values[i] = kValue(static_cast<uint8_t>(i));
      return values;
    }();
    return table[stored];
  }
};

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}
template <typename T>
bool is_nan(std::complex<T> value) {
  return std::isnan(value.real()) || std::isnan(value.imag());
}

double magnitude(double value) {
  return std::fabs(value);
}
template <typename T>
double magnitude(std::complex<T> value) {
  return std::abs(std::complex<double>(value));
}

// Equal infinities have distance 0, although inf - inf is NaN.
double gap(double a, double b) {
  return a == b ? 0 : std::fabs(a - b);
}
template <typename T>
double distance(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // The smaller number is subtracted from the larger as unsigned integers, which is exact where double would round.
    using U = std::make_unsigned_t<T>;
    return static_cast<double>(
        static_cast<U>(a > b ? static_cast<U>(a) - static_cast<U>(b) : static_cast<U>(b) - static_cast<U>(a)));
  } else {
    return gap(a, b);
  }
}
template <typename T>
double distance(std::complex<T> a, std::complex<T> b) {
  return std::hypot(gap(a.real(), b.real()), gap(a.imag(), b.imag()));
}

template <typename Reader>
void compare_run(const unsigned char* a, const unsigned char* b, size_t count, uint64_t first, Difference* out) {
  using Stored = typename Reader::Stored;
  constexpr size_t kSize = sizeof(Stored);
  // number of elements compared at once by memcmp, since most of two checkpoints of one run may be equal
  constexpr size_t kStretch = 4096;
  for (size_t begin = 0; begin < count; begin += kStretch) {
    const size_t end = std::min(count, begin + kStretch);
    if (std::memcmp(a + begin * kSize, b + begin * kSize, (end - begin) * kSize) == 0) {
      uint64_t nan = 0;
      for (size_t i = begin; i < end; ++i) nan += is_nan(Reader::value(load<Stored>(a + i * kSize))) ? 1 : 0;
      out->nan_a += nan;
      out->nan_b += nan;
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      const auto stored_a = load<Stored>(a + i * kSize);
      const auto stored_b = load<Stored>(b + i * kSize);
      if (std::memcmp(a + i * kSize, b + i * kSize, kSize) != 0) ++out->bits_differ;
      const auto value_a = Reader::value(stored_a);
      const auto value_b = Reader::value(stored_b);
      const bool nan_a = is_nan(value_a), nan_b = is_nan(value_b);
      out->nan_a += nan_a ? 1 : 0;
      out->nan_b += nan_b ? 1 : 0;
      if (nan_a || nan_b) {
        out->nan_apart += nan_a != nan_b ? 1 : 0;
        continue;
      }
      const double apart = distance(value_a, value_b);
      if (apart == 0) continue;
      out->sum_abs += apart;
      if (apart > out->max_abs) {
        out->max_abs = apart;
        out->max_at = first + i;
      }
      double largest = 0;
      if constexpr (std::is_integral_v<decltype(value_a)>) {
        largest = std::max(magnitude(static_cast<double>(value_a)), magnitude(static_cast<double>(value_b)));
      } else {
        largest = std::max(magnitude(value_a), magnitude(value_b));
      }
      const double relative = std::isinf(apart) ? apart : apart / largest;
      out->max_relative = std::max(out->max_relative, relative);
    }
  }
  out->elements += count;
}

template <typename T>
bool is_infinite(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isinf(value);
  } else {
    return false;
  }
}
template <typename T>
bool is_infinite(std::complex<T> value) {
  return std::isinf(value.real()) || std::isinf(value.imag());
}

// Calls with(reader) with the reader that fits the dtype.
template <typename With>
void dispatch(const DtypeInfo& dtype, With&& with) {
  switch (dtype.id) {
    case DLCKPT_F64:
      with(Plain<double>());
      break;
    case DLCKPT_F32:
      with(Plain<float>());
      break;
    case DLCKPT_F16:
      with(Half());
      break;
    case DLCKPT_BF16:
      with(Brain());
      break;
    case DLCKPT_F8E4M3:
      with(Tiny<f8e4m3_value>());
      break;
    case DLCKPT_F8E5M2:
      with(Tiny<f8e5m2_value>());
      break;
    case DLCKPT_I64:
      with(Plain<int64_t>());
      break;
    case DLCKPT_I32:
      with(Plain<int32_t>());
      break;
    case DLCKPT_I16:
      with(Plain<int16_t>());
      break;
    case DLCKPT_I8:
      with(Plain<int8_t>());
      break;
    case DLCKPT_U64:
      with(Plain<uint64_t>());
      break;
    case DLCKPT_U32:
      with(Plain<uint32_t>());
      break;
    case DLCKPT_U16:
      with(Plain<uint16_t>());
      break;
    case DLCKPT_U8:
    case DLCKPT_BOOL:
      with(Plain<uint8_t>());
      break;
    case DLCKPT_C64:
      with(Plain<std::complex<float>>());
      break;
    case DLCKPT_C128:
      with(Plain<std::complex<double>>());
      break;
  }
}

}  // namespace

void Difference::merge(const Difference& other) {
  if (other.max_abs > max_abs || (other.max_abs == max_abs && max_abs > 0 && other.max_at < max_at))
    max_at = other.max_at;
  elements += other.elements;
  bits_differ += other.bits_differ;
  nan_a += other.nan_a;
  nan_b += other.nan_b;
  nan_apart += other.nan_apart;
  max_abs = std::max(max_abs, other.max_abs);
  sum_abs += other.sum_abs;
  max_relative = std::max(max_relative, other.max_relative);
}

Difference compare(const DtypeInfo& dtype, const unsigned char* a, const unsigned char* b, size_t count,
                   uint64_t first) {
  Difference out;
  dispatch(dtype, [&](auto reader) { compare_run<decltype(reader)>(a, b, count, first, &out); });
  return out;
}

NonFinite count_non_finite(const DtypeInfo& dtype, const unsigned char* data, size_t count) {
  NonFinite out;
  dispatch(dtype, [&](auto reader) {
    using Reader = decltype(reader);
    using Stored = typename Reader::Stored;
    for (size_t i = 0; i < count; ++i) {
      const auto value = Reader::value(load<Stored>(data + i * sizeof(Stored)));
      out.nan += is_nan(value) ? 1 : 0;
      out.infinite += is_infinite(value) ? 1 : 0;
    }
  });
  return out;
}

}  // namespace dl::ckpt
