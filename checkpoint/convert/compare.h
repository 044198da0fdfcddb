// SPDX-License-Identifier: Apache-2.0
// Compares two tensors piece by piece, so that tensors of any size need little memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/format/dtype.h"

namespace dl::ckpt {

// Sums over the elements seen so far. A complex number is one element; its distance is the absolute value of the
// difference, and it is NaN if a part is.
struct Difference {
  uint64_t elements = 0;
  uint64_t bits_differ = 0;       // elements that differ in their bits (0.0 and -0.0, or two NaNs, may do so)
  uint64_t nan_a = 0, nan_b = 0;  // NaNs on each side
  uint64_t nan_apart = 0;         // elements that are NaN on one side only
  double max_abs = 0;             // largest |a - b| where neither is NaN; equal infinities are 0 apart
  double sum_abs = 0;             // sum of |a - b| over the same elements
  double max_relative = 0;        // largest |a - b| / max(|a|, |b|)
  uint64_t max_at = 0;            // index (C order) of the element with max_abs

  double mean_abs() const { return elements ? sum_abs / static_cast<double>(elements) : 0; }
  // True if no element is further apart than this, and NaNs are at the same places.
  bool within(double tolerance) const { return nan_apart == 0 && max_abs <= tolerance; }
  void merge(const Difference& other);
};

// Compares `count` elements; `first` is the index of the first of them in the tensor. a and b need no alignment.
Difference compare(const DtypeInfo& dtype, const unsigned char* a, const unsigned char* b, size_t count,
                   uint64_t first);

// NaNs and infinities among `count` elements.
struct NonFinite {
  uint64_t nan = 0, infinite = 0;
};
NonFinite count_non_finite(const DtypeInfo& dtype, const unsigned char* data, size_t count);

}  // namespace dl::ckpt
