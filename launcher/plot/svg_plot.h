// SPDX-License-Identifier: Apache-2.0
// Draws charts as one SVG file, which needs no other file and no script: one panel below the other. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/cli/svg.h"
#include "launcher/plot/chart.h"

namespace dl::plot {

// Of one chart; further curves are named by their number alone.
constexpr size_t kMostSvgCurves = 24;

struct Drawing {
  std::string svg;               // the file
  double width = 0, height = 0;  // of the picture, in pixels
};

// The title stands above all charts. Texts are escaped here.
Drawing drawing_of(const std::vector<Chart>& charts, const std::string& title, svg::Ground ground);
// The file for light and dark backgrounds.
std::string svg_of(const std::vector<Chart>& charts, const std::string& title);

}  // namespace dl::plot
