// SPDX-License-Identifier: Apache-2.0
// Draws charts as one SVG file, which needs no other file and no script: one panel below the other, for light and dark
// backgrounds. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/plot/chart.h"

namespace dl::plot {

// Of one chart; further curves are named by their number alone.
constexpr size_t kMostSvgCurves = 24;

// The title stands above all charts. Texts are escaped here.
std::string svg_of(const std::vector<Chart>& charts, const std::string& title);

}  // namespace dl::plot
