// SPDX-License-Identifier: Apache-2.0
// The plot: three panels below one another; each policy has the same colour in all of them. The colours are those of
// Okabe and Ito, which people who cannot tell red from green can distinguish; every line also has a dash pattern of its
// own for print.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/cli/svg.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

constexpr double kWidth = 980;
constexpr double kLeft = 64;
constexpr double kRight = 24;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPanel = 190;
constexpr double kBarPanelTop = 26;
constexpr double kDay = 86400;

using svg::nice_step;
using svg::words;

struct Look {
  const char* colour;
  const char* dash;
};
constexpr std::array kLooks{Look{"#0072b2", ""},    Look{"#56b4e9", "6 3"}, Look{"#d55e00", ""},
                            Look{"#009e73", ""},    Look{"#e69f00", ""},    Look{"#b58900", "6 3"},
                            Look{"#cc79a7", "2 2"}, Look{"#7f7f7f", "2 2"}};

const Look& look_of(size_t policy) {
  return kLooks[policy % kLooks.size()];
}

// A moving average over `width` values around each.
std::vector<double> smooth(const std::vector<double>& values, size_t width) {
  std::vector<double> out(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t from = i >= width / 2 ? i - width / 2 : 0;
    const size_t to = std::min(values.size(), from + width);
    for (size_t k = from; k < to; ++k) out[i] += values[k] / static_cast<double>(to - from);
  }
  return out;
}

struct Axis {
  double end_s = 1;  // of the time shown
  double unit_s = 1;
  const char* unit = "s";

  double x(double seconds) const { return kLeft + kPlotWidth * seconds / end_s; }
};

Axis time_axis(const std::vector<Outcome>& outcomes) {
  Axis axis;
  for (const Outcome& outcome : outcomes) {
    const double all = outcome.series.bucket_s * static_cast<double>(outcome.series.queued.size());
    // A tail of jobs that end long after the submissions would compress the rest, so the axis ends at 1.5 times that
    // time.
    axis.end_s = std::max(axis.end_s, std::min(all, outcome.series.bucket_s * 240));
  }
  if (axis.end_s > 3 * kDay)
    axis.unit_s = kDay, axis.unit = "days";
  else if (axis.end_s > 3 * 3600)
    axis.unit_s = 3600, axis.unit = "hours";
  else if (axis.end_s > 180)
    axis.unit_s = 60, axis.unit = "minutes";
  else
    axis.unit = "seconds";
  return axis;
}

class Picture {
 public:
  explicit Picture(const std::vector<Outcome>& outcomes) : outcomes_(outcomes), axis_(time_axis(outcomes)) {
    const double bucket_s = outcomes.empty() ? 1 : outcomes.front().series.bucket_s;
    if (axis_.end_s > 14 * kDay) window_ = std::max<size_t>(1, static_cast<size_t>(std::lround(kDay / bucket_s)));
  }

  std::string draw(const PlotTitle& title) {
    body_ += words(kLeft, 32, "title", title.title);
    body_ += words(kLeft, 52, "soft", title.subtitle + (window_ > 1 ? "; averages over a day" : ""));
    y_ = 84;
    legend();
    double most = 1;
    for (const Outcome& outcome : outcomes_) {
      for (const double value : smooth(outcome.series.queued, window_)) most = std::max(most, value);
    }
    panel("GPUs in use, %", 100, 20, [](const Outcome& o) {
      std::vector<double> percent = o.series.utilisation;
      for (double& value : percent) value *= 100;
      return percent;
    });
    const double step = nice_step(most, 4);
    panel("jobs that wait", std::ceil(most / step) * step, step, [](const Outcome& o) { return o.series.queued; });
    bars();
    return svg::document(kWidth, y_, title.title, body_);
  }

 private:
  void legend() {
    double x = kLeft;
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      const Outcome& outcome = outcomes_[i];
      const std::string text = outcome.policy;
      const double width = 44 + 7.6 * static_cast<double>(text.size());
      if (x + width > kWidth - kRight) {
        x = kLeft;
        y_ += 22;
      }
      body_ += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"line\" stroke=\"{}\" "
          "stroke-dasharray=\"{}\" style=\"stroke-width:3\"/>\n",
          x, y_ - 4, x + 24, y_ - 4, look_of(i).colour, look_of(i).dash);
      body_ += words(x + 30, y_, "name", text);
      x += width;
    }
    y_ += 34;
  }

  void panel(const char* heading, double most, double step, std::vector<double> (*values)(const Outcome&)) {
    body_ += words(kLeft, y_, "head", heading);
    const double top = y_ + 12;
    const double bottom = top + kPanel;
    const auto y_of = [&](double value) { return bottom - kPanel * value / most; };
    body_ += svg::upward_axis(kLeft, kWidth - kRight, top, bottom, most, step);
    const double units = axis_.end_s / axis_.unit_s;
    const double every = std::max(1.0, nice_step(units, 10));
    for (int tick = 0; tick * every <= units * 1.0001; ++tick) {
      const double at = tick * every;
      body_ += words(axis_.x(at * axis_.unit_s), bottom + 18, "time",
                     tick == 0 ? fmt::format("0 {}", axis_.unit) : fmt::format("{:g}", at));
    }
    // The policies are drawn in reverse, so that the first one of the table lies above the others.
    for (size_t i = outcomes_.size(); i-- > 0;) {
      const std::vector<double> smoothed = smooth(values(outcomes_[i]), window_);
      const double bucket_s = outcomes_[i].series.bucket_s;
      std::string points;
      for (size_t k = 0; k < smoothed.size(); ++k) {
        const double middle = (static_cast<double>(k) + 0.5) * bucket_s;
        if (middle <= axis_.end_s) points += fmt::format("{:.1f},{:.1f} ", axis_.x(middle), y_of(smoothed[k]));
      }
      body_ += fmt::format("<polyline class=\"line\" stroke=\"{}\" stroke-dasharray=\"{}\" points=\"{}\"/>\n",
                           look_of(i).colour, look_of(i).dash, points);
    }
    y_ = bottom + 48;
  }

  // The queue times of each policy: a bar from the median to p99 with a mark at p95, on a logarithmic scale.
  void bars() {
    body_ += words(kLeft, y_, "head", "time in the queue: median to p99, mark at p95");
    const double left = kLeft + 120;
    const double top = y_ + kBarPanelTop - 10;
    double most = 10;
    for (const Outcome& outcome : outcomes_) most = std::max(most, outcome.queue.p99);
    const double decades = std::log10(most * 1.3);
    const auto x_of = [&](double seconds) {
      return left + (kWidth - kRight - 40 - left) * std::log10(std::max(1.0, seconds)) / decades;
    };
    const double bottom = top + 24 * static_cast<double>(outcomes_.size()) + 4;
    for (const double mark : {1.0, 60.0, 900.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0}) {
      if (mark > most * 1.3) continue;
      body_ += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" class=\"grid\"/>\n",
                           x_of(mark), top, bottom);
      body_ += words(x_of(mark), bottom + 16, "time", mark == 1 ? "0-1s" : plain_time(mark));
    }
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      const Times& queue = outcomes_[i].queue;
      const double y = top + 8 + 24 * static_cast<double>(i);
      body_ += words(kLeft, y + 11, "name", outcomes_[i].policy);
      const double from = x_of(queue.median);
      body_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" rx=\"3\" fill=\"{}\" "
          "fill-opacity=\"0.85\"/>\n",
          from, y, std::max(3.0, x_of(queue.p99) - from), look_of(i).colour);
      body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"2.5\" height=\"20\" fill=\"{}\"/>\n",
                           x_of(queue.p95) - 1.2, y - 3, look_of(i).colour);
      body_ += words(std::max(from + 3, x_of(queue.p99)) + 6, y + 11, "soft", short_time(queue.p99));
    }
    y_ = bottom + 36;
  }

  static std::string plain_time(double seconds) {
    for (const auto& [unit, name] : {std::pair{kDay, "d"}, std::pair{3600.0, "h"}, std::pair{60.0, "m"}}) {
      if (seconds >= unit) return fmt::format("{:g}{}", seconds / unit, name);
    }
    return fmt::format("{:g}s", seconds);
  }

  const std::vector<Outcome>& outcomes_;
  Axis axis_;
  size_t window_ = 1;
  double y_ = 0;
  std::string body_;
};

}  // namespace

std::string svg_text(const std::vector<Outcome>& outcomes, const PlotTitle& title) {
  return Picture(outcomes).draw(title);
}

}  // namespace dl::sim
