// SPDX-License-Identifier: Apache-2.0
// Draws charts as parts of a page of HTML. They are as wide as the page is, on a phone, too: curves are stretched, and
// the letters beside them are text of the page. No script, no other file. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/plot/chart.h"

namespace dl::plot {

// Of one chart; further curves are named by their number alone.
constexpr size_t kMostPageCurves = 24;
// A chart is at most this long, whatever its texts are.
constexpr size_t kMostPageChartBytes = 256 << 10;

// The rules of CSS that page_chart() needs, once on a page. The page defines the colours --ink, --soft, --grid.
std::string page_plot_styles();

// The chart as a <figure>. Texts are escaped here, and cut to 120 characters. A chart without a finite sample has its
// title and its legend alone.
std::string page_chart(const Chart& chart);

// The number of labels that an axis along a whole page has room for, and on a phone half of them.
constexpr int kPageTicks = 8;
// A label below a field of a page at this part of its width, 0 to 1. `second`: one that is left out on a phone.
std::string page_label(double part, const std::string& text, bool second);

}  // namespace dl::plot
