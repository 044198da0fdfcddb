// SPDX-License-Identifier: Apache-2.0
// Draws the history as SVG: one panel for each tenant, with areas for the GPUs that are held and lent, and lines for
// the other values. The colours are those of Okabe and Ito, which colour-blind people can tell apart. Every line also
// has its own dash pattern, for print.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/cli/svg.h"
#include "launcher/ctl/history_plot.h"

namespace dl::ctl {
namespace {

using observe::TenantSpan;

constexpr double kWidth = 980, kLeft = 64, kRight = 24, kPanel = 130;
constexpr size_t kColumns = 446;  // two pixels each

struct Area {
  const char* name;
  double TenantSpan::*value;
  const char* colour;
  double opacity;
};
// From the lowest to the highest.
constexpr std::array kAreas{Area{"own", &TenantSpan::own, "#0072b2", 0.9},
                            Area{"lent to others", &TenantSpan::lent, "#56b4e9", 0.45},
                            Area{"borrowed", &TenantSpan::borrowed, "#e69f00", 0.9}};
struct Line {
  const char* name;
  double TenantSpan::*value;
  const char* stroke;
  const char* dash;
};
constexpr std::array kLines{
    Line{"quota", &TenantSpan::quota, "class=\"line ink\"", "7 4"},
    Line{"held but not used", &TenantSpan::unused, "class=\"line\" stroke=\"#d55e00\"", ""},
    Line{"asked for by waiting jobs", &TenantSpan::pending, "class=\"line\" stroke=\"#cc79a7\"", "2 3"}};

class Picture {
 public:
  Picture(const std::vector<TenantSpan>& spans, const Period& period) : spans_(spans), period_(period) {}

  std::string draw() {
    const std::string title = "GPUs of tenants";
    body_ += svg::words(kLeft, 32, "title", title);
    body_ += svg::words(kLeft, 52, "soft", span_text());
    legend();
    for (const std::string& tenant : tenants_in(spans_)) panel(tenant);
    return svg::document(kWidth, y_, title, body_);
  }

 private:
  std::string span_text() const {
    const double hours = static_cast<double>(period_.to_s - period_.from_s) / 3600;
    const std::string length =
        hours >= 48 ? fmt::format("{:.3g} days", hours / 24) : fmt::format("{:.3g} hours", hours);
    const double minutes = hours * 60 / kColumns;
    return fmt::format("{} in local time; averages over {}", length,
                       minutes < 1.5 ? "a minute" : fmt::format("{:.0f} minutes", minutes));
  }

  void legend() {
    double x = kLeft;
    y_ = 80;
    for (const Area& area : kAreas) {
      body_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"20\" height=\"12\" fill=\"{}\" fill-opacity=\"{}\"/>\n",
                      x, y_ - 10, area.colour, area.opacity);
      named(&x, area.name);
    }
    for (const Line& line : kLines) {
      body_ += fmt::format("<path d=\"M{:.1f},{:.1f}h22\" {} stroke-dasharray=\"{}\" style=\"stroke-width:2.4\"/>\n", x,
                           y_ - 4, line.stroke, line.dash);
      named(&x, line.name);
    }
    y_ += 34;
  }
  void named(double* x, const char* name) {
    body_ += svg::words(*x + 28, y_, "name", name);
    *x += 52 + 6.9 * static_cast<double>(std::string_view(name).size());
  }

  static double stacked(const TenantSpan& span, size_t areas) {
    double sum = 0;
    for (size_t i = 0; i < areas; ++i) sum += span.*kAreas[i].value;
    return sum;
  }

  void panel(const std::string& tenant) {
    const Columns columns = columns_of(spans_, tenant, period_, kColumns);
    double held = 1, pending = 0;
    for (const auto& span : columns) {
      if (!span) continue;
      held = std::max({held, span->quota, span->unused, stacked(*span, kAreas.size())});
      pending = std::max(pending, span->pending);
    }
    // A long queue would flatten everything else, so the panel ends at twice the other values, and a text gives the
    // maximum.
    const double range = std::max(held, std::min(pending, 2 * held));
    const double step = std::max(1.0, svg::nice_step(range, 4));
    most_ = std::ceil(range / step) * step;
    body_ += svg::words(kLeft, y_, "head", tenant);
    body_ += svg::words(kLeft + 14 + 8.2 * static_cast<double>(tenant.size()), y_, "soft",
                        pending > most_ ? fmt::format("GPUs; waiting jobs asked for up to {:.0f}", pending) : "GPUs");
    top_ = y_ + 12;
    bottom_ = top_ + kPanel;
    for (size_t i = kAreas.size(); i-- > 0;)
      body_ += fmt::format("<path d=\"{}\" fill=\"{}\" fill-opacity=\"{}\"/>\n", area_path(columns, i),
                           kAreas[i].colour, kAreas[i].opacity);
    body_ += svg::upward_axis(kLeft, kWidth - kRight, top_, bottom_, most_, step);
    for (const Line& line : kLines)
      body_ += fmt::format("<path d=\"{}\" {} stroke-dasharray=\"{}\"/>\n", line_path(columns, line.value), line.stroke,
                           line.dash);
    for (const TimeMark& mark : time_marks(period_, 10)) {
      const double x = kLeft + (kWidth - kLeft - kRight) * static_cast<double>(mark.time_s - period_.from_s) /
                                   static_cast<double>(period_.to_s - period_.from_s);
      body_ += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" class=\"grid\"/>\n", x,
                           bottom_, bottom_ + 5);
      body_ += svg::words(x, bottom_ + 18, "time", mark.text);
    }
    y_ = bottom_ + 48;
  }

  double y_of(double gpus) const { return std::max(top_, bottom_ - (bottom_ - top_) * gpus / most_); }
  static double x_of(size_t column) {
    return kLeft + (kWidth - kLeft - kRight) * static_cast<double>(column) / static_cast<double>(kColumns);
  }

  // Draws steps, so that a value that lasted only a minute is shown as that.
  std::string area_path(const Columns& columns, size_t area) const {
    std::string path;
    for (size_t i = 0; i < columns.size();) {
      size_t end = i;
      while (end < columns.size() && columns[end]) ++end;
      if (end == i) {
        ++i;
        continue;
      }
      path += fmt::format("M{:.1f},{:.1f}", x_of(i), y_of(stacked(*columns[i], area)));
      for (size_t k = i; k < end; ++k)
        path += fmt::format("V{:.1f}H{:.1f}", y_of(stacked(*columns[k], area + 1)), x_of(k + 1));
      for (size_t k = end; k-- > i;) path += fmt::format("V{:.1f}H{:.1f}", y_of(stacked(*columns[k], area)), x_of(k));
      path += "Z";
      i = end;
    }
    return path;
  }
  std::string line_path(const Columns& columns, double TenantSpan::*value) const {
    std::string path;
    bool drawn = false;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i]) {
        const double y = y_of(*columns[i].*value);
        path += drawn ? fmt::format("V{:.1f}", y) : fmt::format("M{:.1f},{:.1f}", x_of(i), y);
        path += fmt::format("H{:.1f}", x_of(i + 1));
      }
      drawn = columns[i].has_value();
    }
    return path;
  }

  const std::vector<TenantSpan>& spans_;
  const Period& period_;
  double y_ = 0, top_ = 0, bottom_ = 0, most_ = 1;
  std::string body_;
};

}  // namespace

std::string history_svg(const std::vector<TenantSpan>& spans, const Period& period) {
  return Picture(spans, period).draw();
}

}  // namespace dl::ctl
