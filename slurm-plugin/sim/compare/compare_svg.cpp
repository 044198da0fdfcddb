// SPDX-License-Identifier: Apache-2.0
// A plot of the part of the jobs that started within a time: a line for the real waits, and one for each policy.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/cli/svg.h"
#include "slurm-plugin/sim/compare/compare.h"

namespace dl::sim {
namespace {

constexpr double kWidth = 780;
constexpr double kLeft = 64;
constexpr double kRight = 24;
constexpr double kTop = 104;
constexpr double kBottom = kTop + 260;
// The colours of Okabe and Ito, as in report/svg.cpp. The real waits are grey and dashed, so that they are seen on
// light and dark.
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
constexpr const char* kReal = "#7f7f7f";

struct Mark {
  double seconds;
  const char* name;
};
constexpr std::array kMarks{Mark{1, "1s"},     Mark{60, "1m"},    Mark{900, "15m"},      Mark{3600, "1h"},
                            Mark{21600, "6h"}, Mark{86400, "1d"}, Mark{7 * 86400, "7d"}, Mark{30 * 86400, "30d"}};

std::string line_tag(const char* colour, const char* dash, const std::string& points) {
  return fmt::format("<polyline class=\"line\" stroke=\"{}\" stroke-dasharray=\"{}\" points=\"{}\"/>\n", colour, dash,
                     points);
}

}  // namespace

std::string compare_svg(const Trace& trace, const std::vector<Outcome>& outcomes, const std::string& title) {
  const auto sorted = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values;
  };
  const std::vector<double> real = sorted(wait_pairs(trace, outcomes.front(), kAll).real);
  double most = 900;
  std::vector<std::vector<double>> simulated;
  for (const Outcome& outcome : outcomes) {
    simulated.push_back(sorted(wait_pairs(trace, outcome, kAll).simulated));
    if (!simulated.back().empty()) most = std::max(most, simulated.back().back());
  }
  if (!real.empty()) most = std::max(most, real.back());
  const double decades = std::log10(most * 1.2);
  const auto x_of = [&](double s) {
    return kLeft + (kWidth - kLeft - kRight) * std::log10(std::max(1.0, s)) / decades;
  };
  const auto points = [&](const std::vector<double>& waits) {
    std::string text;
    constexpr size_t kPoints = 300;
    for (size_t i = 0; i <= kPoints && !waits.empty(); ++i) {
      const size_t at = std::min(waits.size() - 1, i * waits.size() / kPoints);
      const double part = static_cast<double>(at + 1) / static_cast<double>(waits.size());
      text += fmt::format("{:.1f},{:.1f} ", x_of(waits[at]), kBottom - (kBottom - kTop) * part);
    }
    return text;
  };
  std::string body = svg::words(kLeft, 32, "title", title);
  double x = kLeft;
  const auto legend = [&](const char* colour, const char* dash, const std::string& name) {
    body += line_tag(colour, dash, fmt::format("{:.1f},56 {:.1f},56", x, x + 24));
    body += svg::words(x + 30, 60, "name", name);
    x += 48 + 7.6 * static_cast<double>(name.size());
  };
  legend(kReal, "6 3", "real");
  for (size_t i = 0; i < outcomes.size(); ++i) legend(kColours[i % kColours.size()], "", outcomes[i].policy);
  body += svg::words(kLeft, 92, "head", "% of the jobs that started within");
  body += svg::upward_axis(kLeft, kWidth - kRight, kTop, kBottom, 100, 20);
  for (const Mark& mark : kMarks) {
    if (mark.seconds > most * 1.2) continue;
    body += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" class=\"grid\"/>\n",
                        x_of(mark.seconds), kTop, kBottom);
    body += svg::words(x_of(mark.seconds), kBottom + 18, "time", mark.name);
  }
  for (size_t i = 0; i < outcomes.size(); ++i)
    body += line_tag(kColours[i % kColours.size()], "", points(simulated[i]));
  body += line_tag(kReal, "6 3", points(real));
  return svg::document(kWidth, kBottom + 40, title, body);
}

}  // namespace dl::sim
