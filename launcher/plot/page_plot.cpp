// SPDX-License-Identifier: Apache-2.0
#include "launcher/plot/page_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/cli/svg.h"
#include "launcher/plot/colours.h"
#include "launcher/plot/scale.h"
#include "launcher/plot/thin.h"

namespace dl::plot {
namespace {

static_assert(kCurveStyles == kMostPageCurves);

// The field of a chart in units of its picture, which is stretched over the page.
constexpr int kFieldWidth = 2000, kFieldHeight = 1000;
constexpr int kFieldColumns = 500, kTicksUpwards = 5;
constexpr size_t kSamplesOfChart = 6000, kLeastSamples = 240, kMostOfCurve = 1500, kPageTextLength = 120;
constexpr size_t kMostPageMarks = 60, kMostPageNotes = 12;
constexpr double kMarkRoom = 0.13;  // the part of the field that the name of a mark takes

std::string page_text(const std::string& text) {
  return svg::escaped(printable(text, kPageTextLength));
}

// A line in the style of a curve.
std::string page_path(const std::string& points, size_t curve) {
  const char* dash = kDashes[curve / kColours.size() % kDashes.size()];
  return fmt::format("<path d=\"{}\" class=\"curve k{}\"{}/>", points, curve % kColours.size(),
                     *dash == '\0' ? std::string() : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

class PageChart {
 public:
  explicit PageChart(const Chart& chart) : chart_(chart) {}

  std::string draw() {
    html_ = "<figure class=\"chart\"><figcaption>" + page_text(chart_.title) + "</figcaption>";
    legend();
    if (const Ranges ranges = ranges_of(chart_); ranges.any) field(ranges);
    for (size_t i = 0; i < std::min(chart_.notes.size(), kMostPageNotes); ++i)
      html_ += "<p class=\"note\">" + page_text(chart_.notes[i]) + "</p>";
    return html_ + "</figure>\n";
  }

 private:
  size_t shown() const { return std::min(chart_.curves.size(), kMostPageCurves); }

  void legend() {
    html_ += "<ul class=\"keys\">";
    for (size_t i = 0; i < shown(); ++i) {
      const Curve& curve = chart_.curves[i];
      html_ += "<li><svg class=\"key\" viewBox=\"0 0 26 8\" aria-hidden=\"true\">" + page_path("M0,4h26", i) +
               "</svg><b>" + page_text(curve.name) + "</b>" + (curve.note.empty() ? "" : ": " + page_text(curve.note)) +
               "</li>";
    }
    const auto left_out = static_cast<int64_t>(chart_.curves.size() - shown());
    if (left_out > 0) html_ += "<li>" + count_text(left_out, "further curve") + " not drawn</li>";
    html_ += "</ul>";
  }

  void field(const Ranges& ranges) {
    const double up = tick_step(ranges.y, kTicksUpwards), across = tick_step(ranges.x, kPageTicks);
    x_ = ranges.x;
    y_ = rounded(ranges.y, up);
    std::string grid, labels;
    size_t widest = 1;
    for (const double tick : ticks(y_, up)) {
      const std::string text = tick_text(tick, up);
      widest = std::max(widest, text.size());
      grid += fmt::format("M0,{}h{}", down(tick), kFieldWidth);
      labels += fmt::format("<span class=\"y\" style=\"top:{:.2f}%\">{}</span>", 100 - 100 * y_.part(tick), text);
    }
    bool second = false;
    for (const double tick : ticks(x_, across)) {
      grid += fmt::format("M{},{}v12", right(tick), kFieldHeight);
      labels += page_label(x_.part(tick), tick_text(tick, across), second);
      second = !second;
    }
    html_ += fmt::format(
        "<div class=\"plot\" style=\"margin-left:{:.1f}em\"><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
        "role=\"img\" aria-label=\"{}\"><path d=\"{}\" class=\"grid\"/>",
        0.6 * static_cast<double>(widest) + 0.8, kFieldWidth, kFieldHeight, page_text(chart_.title), grid);
    marks(&labels);
    const size_t most = std::clamp(kSamplesOfChart / std::max<size_t>(shown(), 1), kLeastSamples, kMostOfCurve);
    for (size_t i = shown(); i-- > 0;) curve(chart_.curves[i], i, most);
    html_ += "</svg>" + labels + "</div><p class=\"axis\">" + page_text(chart_.axis) + "</p>";
  }

  void marks(std::string* labels) {
    double free = 0;
    for (size_t i = 0; i < std::min(chart_.marks.size(), kMostPageMarks); ++i) {
      const Mark& mark = chart_.marks[i];
      if (!std::isfinite(mark.x)) continue;
      html_ += fmt::format("<path d=\"M{},0v{}\" class=\"mark\"><title>{}</title></path>", right(mark.x), kFieldHeight,
                           page_text(mark.text));
      const double part = x_.part(mark.x);
      if (part < free || part + kMarkRoom > 1) continue;
      *labels += fmt::format("<span class=\"at\" style=\"left:{:.2f}%\">{}</span>", 100 * part, page_text(mark.name));
      free = part + kMarkRoom;
    }
  }

  void curve(const Curve& curve, size_t index, size_t most) {
    std::string points;
    for (const auto& run : thinned(curve.samples, x_, kFieldColumns, most)) {
      char joint = 'M';
      for (const Sample& sample : run) {
        points += fmt::format("{}{},{}", joint, right(sample.x), down(sample.y));
        joint = 'L';
      }
      // A point that nothing is joined to is a line without a length, which round ends make a spot.
      if (run.size() == 1) points += "h0";
    }
    html_ += page_path(points, index);
  }

  int right(double x) const { return static_cast<int>(std::lround(kFieldWidth * x_.part(x))); }
  int down(double y) const { return static_cast<int>(std::lround(kFieldHeight * (1 - y_.part(y)))); }

  const Chart& chart_;
  Range x_, y_;
  std::string html_;
};

}  // namespace

std::string page_plot_styles() {
  std::string light, dark, rules;
  for (size_t i = 0; i < kColours.size(); ++i) {
    light += fmt::format("--k{}:{};", i, kColours[i].light);
    dark += fmt::format("--k{}:{};", i, kColours[i].dark);
    rules += fmt::format(".k{0}{{stroke:var(--k{0})}}", i);
  }
  return ":root{" + light + "}\n@media screen and (prefers-color-scheme:dark){:root{" + dark + "}}\n" + rules +
         "\n.chart{margin:0 0 1.6rem;break-inside:avoid}.chart figcaption{font-weight:600;overflow-wrap:anywhere}\n"
         ".keys{list-style:none;margin:.2rem 0 .7rem;padding:0;font-size:.85rem;overflow-wrap:anywhere}"
         ".key{width:1.6em;height:.5em;margin-right:.5em;vertical-align:middle}\n"
         ".plot{position:relative;height:13rem;margin:0 1.4rem 0 0;font-size:.78rem}"
         ".plot svg{position:absolute;left:0;top:0;width:100%;height:100%;overflow:visible}\n"
         ".curve,.grid,.mark{fill:none;vector-effect:non-scaling-stroke}"
         ".curve{stroke-width:1.8px;stroke-linejoin:round;stroke-linecap:round}.grid{stroke:var(--grid)}"
         ".mark{stroke:var(--soft);stroke-dasharray:3 4}\n"
         ".plot span{position:absolute;color:var(--soft);white-space:nowrap;line-height:1}"
         ".plot .y{right:100%;padding-right:.5em;transform:translateY(-50%)}"
         ".plot .x{top:100%;padding-top:.5em;transform:translateX(-50%)}.plot .at{top:.2em;padding-left:.4em}\n"
         ".axis{margin:1.5rem 1.4rem 0 0;font-size:.78rem;text-align:center;color:var(--soft)}"
         ".note{margin:.2rem 0 0;font-size:.85rem;color:var(--soft);overflow-wrap:anywhere}\n"
         "@media (max-width:42rem){.plot .second,.plot .at{display:none}}\n";
}

std::string page_chart(const Chart& chart) {
  return PageChart(chart).draw();
}

std::string page_label(double part, const std::string& text, bool second) {
  return fmt::format("<span class=\"x{}\" style=\"left:{:.2f}%\">{}</span>", second ? " second" : "", 100 * part,
                     page_text(text));
}

}  // namespace dl::plot
