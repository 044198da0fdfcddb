// SPDX-License-Identifier: Apache-2.0
// Makes few samples of many, so that the curve looks the same in a picture of a given width: of those in one column the
// first, the lowest, the highest and the last stay. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "launcher/plot/chart.h"
#include "launcher/plot/scale.h"

namespace dl::plot {

// The samples of a curve, thinned for a picture of `columns` columns over the range, and in runs that are joined: each
// run is sorted by x, has at least one sample, and finite samples alone. A gap that is narrower than a column is
// closed. If there would be more than `most` samples, columns are made wider.
std::vector<std::vector<Sample>> thinned(const std::vector<Sample>& samples, const Range& x, int columns, size_t most);

}  // namespace dl::plot
