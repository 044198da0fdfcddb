// SPDX-License-Identifier: Apache-2.0
#include "launcher/plot/svg_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "common/base/count.h"
#include "common/cli/svg.h"
#include "launcher/plot/colours.h"
#include "launcher/plot/scale.h"
#include "launcher/plot/thin.h"

namespace dl::plot {
namespace {

constexpr double kWidth = 980, kLeft = 76, kRight = 24, kPanel = 220, kLine = 19;
constexpr int kColumns = 440;  // two pixels each
constexpr size_t kMostSamples = 2000;
constexpr int kTicksUp = 5, kTicksAcross = 10;
constexpr double kMarkName = 66;  // pixels that the name of a mark takes
constexpr size_t kMostMarks = 200, kMostMarkLines = 12;

static_assert(kCurveStyles == kMostSvgCurves);

std::string styles(svg::Ground ground) {
  std::string light, dark;
  for (size_t i = 0; i < kColours.size(); ++i) {
    const auto rule = [&](const char* colour) {
      return fmt::format(".c{0} {{ stroke: {1}; }} .d{0} {{ fill: {1}; }}\n", i, colour);
    };
    light += rule(kColours[i].light);
    dark += rule(kColours[i].dark);
  }
  if (ground == svg::Ground::kBoth) light += "@media (prefers-color-scheme: dark) {\n" + dark + "}\n";
  return "<style>\n" + light + "</style>\n";
}

// A line in the style of a curve.
std::string path(const std::string& points, size_t curve) {
  const char* dash = kDashes[curve / kColours.size() % kDashes.size()];
  return fmt::format("<path d=\"{}\" class=\"line c{}\"{}/>\n", points, curve % kColours.size(),
                     *dash == '\0' ? std::string() : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

class Picture {
 public:
  Drawing draw(const std::vector<Chart>& charts, const std::string& title, svg::Ground ground) {
    body_ = styles(ground) + svg::words(kLeft, 32, "title", title);
    y_ = 62;
    for (const Chart& chart : charts) panel(chart);
    return {svg::document(kWidth, y_, title, body_, ground), kWidth, y_};
  }

 private:
  void panel(const Chart& chart) {
    body_ += svg::words(kLeft, y_, "head", chart.title);
    legend(chart);
    if (const Ranges ranges = ranges_of(chart); ranges.any) {
      const double step = tick_step(ranges.y, kTicksUp);
      range_x_ = ranges.x;
      range_y_ = rounded(ranges.y, step);
      top_ = y_ + 2;
      bottom_ = top_ + kPanel;
      axes(chart, step);
      const size_t shown = std::min(chart.curves.size(), kMostSvgCurves);
      for (size_t i = shown; i-- > 0;) curve(chart.curves[i], i);
      y_ = bottom_ + 46;
    }
    for (size_t i = 0; i < std::min(chart.marks.size(), kMostMarkLines); ++i) soft_line(chart.marks[i].text);
    if (chart.marks.size() > kMostMarkLines)
      soft_line("and " + std::to_string(chart.marks.size() - kMostMarkLines) + " more");
    for (const std::string& note : chart.notes) soft_line(note);
    y_ += 26;
  }

  void soft_line(const std::string& text) {
    body_ += svg::words(kLeft, y_ + 10, "soft", text);
    y_ += kLine;
  }

  void legend(const Chart& chart) {
    const size_t shown = std::min(chart.curves.size(), kMostSvgCurves);
    for (size_t i = 0; i < shown; ++i) {
      y_ += kLine;
      body_ += path(fmt::format("M{:.1f},{:.1f}h26", kLeft, y_ - 4), i);
      const Curve& curve = chart.curves[i];
      body_ += svg::words(kLeft + 34, y_, "name", curve.name + (curve.note.empty() ? "" : ": " + curve.note));
    }
    if (chart.curves.size() > shown) {
      y_ += kLine;
      body_ +=
          svg::words(kLeft, y_, "soft",
                     count_text(static_cast<int64_t>(chart.curves.size() - shown), "further curve") + " not drawn");
    }
    y_ += 14;
  }

  void axes(const Chart& chart, double step) {
    for (const double tick : ticks(range_y_, step)) {
      const double y = y_of(tick);
      body_ += fmt::format("<line x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\" class=\"grid\"/>\n",
                           kLeft, kWidth - kRight, y);
      body_ += svg::words(kLeft - 8, y + 4, "tick", tick_text(tick, step));
    }
    const double across = tick_step(range_x_, kTicksAcross);
    for (const double tick : ticks(range_x_, across)) {
      upright(x_of(tick), bottom_, bottom_ + 5, "class=\"grid\"");
      body_ += svg::words(x_of(tick), bottom_ + 19, "time", tick_text(tick, across));
    }
    body_ += svg::words((kLeft + kWidth - kRight) / 2, bottom_ + 35, "time", chart.axis);
    double free = 0;
    for (size_t i = 0; i < std::min(chart.marks.size(), kMostMarks); ++i) {
      const Mark& mark = chart.marks[i];
      if (!std::isfinite(mark.x)) continue;
      const double x = x_of(mark.x);
      body_ += "<g><title>" + svg::escaped(mark.text) + "</title>\n";
      upright(x, top_, bottom_, "class=\"ink\" stroke-opacity=\"0.5\" stroke-dasharray=\"3 4\"");
      if (x >= free && x + kMarkName <= kWidth) {
        body_ += svg::words(x + 4, top_ + 12, "soft", mark.name);
        free = x + kMarkName;
      }
      body_ += "</g>\n";
    }
  }

  void upright(double x, double from, double to, const char* style) {
    body_ +=
        fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" {3}/>\n", x, from, to, style);
  }

  void curve(const Curve& curve, size_t index) {
    for (const auto& run : thinned(curve.samples, range_x_, kColumns, kMostSamples)) {
      if (run.size() == 1) {
        body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" class=\"d{}\"/>\n", x_of(run[0].x),
                             y_of(run[0].y), index % kColours.size());
        continue;
      }
      std::string points;
      for (const Sample& sample : run)
        points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "M" : "L", x_of(sample.x), y_of(sample.y));
      body_ += path(points, index);
    }
  }

  double x_of(double value) const { return kLeft + (kWidth - kLeft - kRight) * range_x_.part(value); }
  double y_of(double value) const { return bottom_ - (bottom_ - top_) * range_y_.part(value); }

  Range range_x_, range_y_;
  double y_ = 0, top_ = 0, bottom_ = 1;
  std::string body_;
};

}  // namespace

Drawing drawing_of(const std::vector<Chart>& charts, const std::string& title, svg::Ground ground) {
  return Picture().draw(charts, title, ground);
}

std::string svg_of(const std::vector<Chart>& charts, const std::string& title) {
  return drawing_of(charts, title, svg::Ground::kBoth).svg;
}

}  // namespace dl::plot
