// SPDX-License-Identifier: Apache-2.0
// The range of an axis, its ticks, and their numbers. Any doubles are taken. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/plot/chart.h"

namespace dl::plot {

struct Range {
  double low = 0, high = 1;  // low < high
  // The place of a value in the range, from 0 to 1; values outside lie at its ends.
  double part(double value) const;
};

struct Ranges {
  Range x, y;
  bool any = false;  // false: the chart has no finite sample
};
// The smallest ranges that have all samples of the chart. Where all are (nearly) equal, the range is a tenth of them
// wider on both sides, so that it can be divided. Values beyond 1e300 count as that.
Ranges ranges_of(const Chart& chart);

// The distance of round ticks, of which the range has about `count` at most.
double tick_step(const Range& range, int count);
// The range, extended to the next ticks.
Range rounded(const Range& range, double step);
// The multiples of `step` in the range, rising; at most 100.
std::vector<double> ticks(const Range& range, double step);
// The number beside a tick: "0.25", "1200", "1.5e9", with as many digits as neighbours at this distance need.
std::string tick_text(double value, double step);

}  // namespace dl::plot
