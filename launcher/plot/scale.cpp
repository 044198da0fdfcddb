// SPDX-License-Identifier: Apache-2.0
#include "launcher/plot/scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/cli/svg.h"

namespace dl::plot {
namespace {

constexpr double kMost = 1e300;      // beyond it a difference of two values could be infinite
constexpr double kLeast = 1e-290;    // below it ticks cannot be told from 0
constexpr double kNarrowest = 1e-9;  // of a value: with a narrower range the numbers of ticks would be very long
constexpr int kMostTicks = 100;
constexpr double kLongest = 1e7;  // from here on, numbers are written with an exponent
constexpr int kMostDecimals = 6;

class Extent {
 public:
  void add(double value) {
    value = std::clamp(value, -kMost, kMost);
    low_ = any_ ? std::min(low_, value) : value;
    high_ = any_ ? std::max(high_, value) : value;
    any_ = true;
  }
  Range range() const {
    if (!any_) return {};
    const double largest = std::max(std::abs(low_), std::abs(high_));
    if (largest < kLeast) return {-1, 1};
    if (high_ - low_ > kNarrowest * largest) return {low_, high_};
    return {low_ - largest / 10, high_ + largest / 10};
  }

 private:
  double low_ = 0, high_ = 0;
  bool any_ = false;
};

// Counted in steps, so that adding them up makes no error.
int64_t first_tick(const Range& range, double step) {
  return static_cast<int64_t>(std::ceil(range.low / step - 1e-6));
}
int64_t last_tick(const Range& range, double step) {
  return static_cast<int64_t>(std::floor(range.high / step + 1e-6));
}

}  // namespace

double Range::part(double value) const {
  return std::clamp((std::clamp(value, -kMost, kMost) - low) / (high - low), 0.0, 1.0);
}

Ranges ranges_of(const Chart& chart) {
  Extent x, y;
  Ranges ranges;
  for (const Curve& curve : chart.curves)
    for (const Sample& sample : curve.samples) {
      if (!std::isfinite(sample.x) || !std::isfinite(sample.y)) continue;
      x.add(sample.x);
      y.add(sample.y);
      ranges.any = true;
    }
  ranges.x = x.range();
  ranges.y = y.range();
  return ranges;
}

double tick_step(const Range& range, int count) {
  return svg::nice_step(range.high - range.low, std::max(1, count));
}

Range rounded(const Range& range, double step) {
  const Range wide{std::floor(range.low / step + 1e-6) * step, std::ceil(range.high / step - 1e-6) * step};
  return wide.low < wide.high ? wide : range;
}

std::vector<double> ticks(const Range& range, double step) {
  std::vector<double> all;
  const int64_t first = first_tick(range, step), last = last_tick(range, step);
  for (int64_t tick = first; tick <= last && tick < first + kMostTicks; ++tick)
    all.push_back(static_cast<double>(tick) * step);
  return all;
}

std::string tick_text(double value, double step) {
  if (std::abs(value) < step / 2) return "0";
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  if (decimals <= kMostDecimals && std::abs(value) < kLongest) return fmt::format("{:.{}f}", value, decimals);
  const int digits =
      static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9) - std::floor(std::log10(step) + 1e-9));
  std::string text = fmt::format("{:.{}e}", value, std::clamp(digits, 0, 12));
  const size_t exponent = text.find('e') + 1;
  if (text[exponent] == '+') text.erase(exponent, 1);
  const size_t zero = text[exponent] == '-' ? exponent + 1 : exponent;
  if (text[zero] == '0') text.erase(zero, 1);
  return text;
}

}  // namespace dl::plot
