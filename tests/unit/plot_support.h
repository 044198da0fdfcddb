// SPDX-License-Identifier: Apache-2.0
// Short forms of curves and texts, for the tests of launcher/plot.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "launcher/plot/chart.h"
#include "launcher/plot/text_plot.h"

namespace dl::plot {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Samples at 0, 1, 2, ...
inline std::vector<Sample> samples(const std::vector<double>& values) {
  std::vector<Sample> all;
  for (size_t i = 0; i < values.size(); ++i) all.push_back({static_cast<double>(i), values[i]});
  return all;
}

inline Chart chart(const std::vector<std::vector<double>>& curves) {
  Chart chart{"loss", "train step", {}, {}, {}};
  for (size_t i = 0; i < curves.size(); ++i)
    chart.curves.push_back({"curve " + std::to_string(i), "", samples(curves[i])});
  return chart;
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    all.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return all;
}

inline size_t characters(const std::string& text) {
  size_t count = 0;
  for (const char c : text)
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) ++count;
  return count;
}

inline TextStyle letters(int width, int rows = 5) {
  return {width, rows, Marks::kLetters, false};
}

}  // namespace dl::plot
