// SPDX-License-Identifier: Apache-2.0
// Draws a chart with characters, for a terminal. Pure.
#pragma once

#include <string>

#include "launcher/plot/canvas.h"
#include "launcher/plot/chart.h"

namespace dl::plot {

struct TextStyle {
  int width = 80;  // characters of the longest line; at least kLeastWidth are taken
  int rows = 12;   // characters of the curves' field; at least 3
  Marks marks = Marks::kBraille;
  bool colour = false;
};
constexpr int kLeastWidth = 24;
// Curves of a chart that can be told apart; further ones are named in a line.
constexpr size_t kMostTextCurves = 8;

// The title, the field with its axes, and a legend, each line with a newline. Without colours several curves are drawn
// by letters, whatever `marks` says. With Marks::kLetters all that is not in the chart's texts is ASCII.
std::string text_of(const Chart& chart, const TextStyle& style);

// The text, cut to so many characters with an ellipsis ("..." if `ascii`). Characters count as one, whatever a terminal
// makes of them.
std::string fitted(const std::string& text, int characters, bool ascii);

}  // namespace dl::plot
