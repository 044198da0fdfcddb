// SPDX-License-Identifier: Apache-2.0
// The median of some values, and their usual distance from it. A few outliers change neither much.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace dl {

// Precondition of both functions: `values` is not empty.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The median absolute deviation (MAD) from `middle`, their median.
inline double median_deviation(const std::vector<double>& values, double middle) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return median(std::move(distances));
}

}  // namespace dl
