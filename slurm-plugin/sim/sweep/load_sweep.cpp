// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/sweep/load_sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/cli/svg.h"
#include "common/json/json.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

constexpr double kLeft = 64;
constexpr double kRight = 24;
constexpr double kPanelWidth = 400;
constexpr double kTop = 120;
constexpr double kBottom = kTop + 220;
// The colours of Okabe and Ito, as in report/svg.cpp.
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7"};

std::vector<std::string> distinct(const std::vector<LoadRow>& rows, std::string LoadRow::*field) {
  std::vector<std::string> found;
  for (const LoadRow& row : rows)
    if (std::find(found.begin(), found.end(), row.*field) == found.end()) found.push_back(row.*field);
  return found;
}

// The row of the first policy on the same cluster at the same load.
const LoadRow& first_of(const std::vector<LoadRow>& rows, const LoadRow& row) {
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const LoadRow& other) { return other.nodes == row.nodes && other.load == row.load; });
}

std::string ratio_text(double ratio) {
  return ratio == 0 ? "none : some" : fmt::format("{:.1f}x", ratio);
}

// Names a panel: "g=100x4" has nodes of 4 GPUs.
std::string panel_name(const std::string& nodes) {
  const size_t times = nodes.rfind('x');
  return times == std::string::npos || nodes.find(',') != std::string::npos
             ? nodes
             : fmt::format("nodes of {} GPUs ({})", nodes.substr(times + 1), nodes);
}

}  // namespace

double times_as_many(const LoadRow& first, const LoadRow& second) {
  if (first.long_waits.mean > 0) return second.long_waits.mean / first.long_waits.mean;
  return second.long_waits.mean > 0 ? 0 : 1;
}

std::string load_table(const std::vector<LoadRow>& rows, double level) {
  std::vector<std::vector<std::string>> cells{
      {"NODES", "POLICY", "LOAD", "JOBS", ">15M", fmt::format("{:g}%", 100 * level), "RATIO", "WAIT", "USED"}};
  for (const LoadRow& row : rows) {
    const LoadRow& first = first_of(rows, row);
    cells.push_back({row.nodes, row.policy, fmt::format("{:g}", row.load), fmt::format("{}", row.jobs),
                     fmt::format("{:.2f}%", 100 * row.long_waits.mean),
                     fmt::format("[{:.2f}, {:.2f}]", 100 * row.long_waits.low, 100 * row.long_waits.high),
                     &first == &row ? "" : ratio_text(times_as_many(first, row)), short_time(row.wait_s.mean),
                     fmt::format("{:.1f}%", 100 * row.used)});
  }
  return aligned(cells, 2);
}

std::string load_json(const std::vector<LoadRow>& rows, double level) {
  const auto interval = [](const Interval& it) { return Json{{"mean", it.mean}, {"low", it.low}, {"high", it.high}}; };
  Json all = Json::array();
  for (const LoadRow& row : rows) {
    const LoadRow& first = first_of(rows, row);
    const double ratio = times_as_many(first, row);
    all.push_back({{"nodes", row.nodes},
                   {"policy", row.policy},
                   {"load", row.load},
                   {"jobs", row.jobs},
                   {"level", level},
                   {"waited_15m_part", interval(row.long_waits)},
                   {"wait_s", interval(row.wait_s)},
                   {"utilisation", row.used},
                   {"times_the_first", &first == &row || ratio == 0 ? Json(nullptr) : Json(ratio)}});
  }
  return all.dump(1) + "\n";
}

std::string load_svg(const std::vector<LoadRow>& rows, const std::string& title) {
  const std::vector<std::string> panels = distinct(rows, &LoadRow::nodes);
  const std::vector<std::string> policies = distinct(rows, &LoadRow::policy);
  double least = rows.empty() ? 0 : rows.front().load;
  double most_load = least;
  double most = 1;
  for (const LoadRow& row : rows) {
    least = std::min(least, row.load);
    most_load = std::max(most_load, row.load);
    most = std::max(most, 100 * row.long_waits.high);
  }
  const double step = svg::nice_step(most, 5);
  most = std::ceil(most / step) * step;
  std::string body = svg::words(kLeft, 32, "title", title);
  double x = kLeft;
  for (size_t i = 0; i < policies.size(); ++i) {
    body += fmt::format("<polyline class=\"line\" stroke=\"{}\" points=\"{:.1f},56 {:.1f},56\"/>\n",
                        kColours[i % kColours.size()], x, x + 24);
    body += svg::words(x + 30, 60, "name", policies[i]);
    x += 52 + 7.6 * static_cast<double>(policies[i].size());
  }
  for (size_t panel = 0; panel < panels.size(); ++panel) {
    const double left = kLeft + static_cast<double>(panel) * (kPanelWidth + kLeft);
    const double right = left + kPanelWidth - kRight;
    const auto x_of = [&](double load) {
      return left + (right - left) * (most_load > least ? (load - least) / (most_load - least) : 0.5);
    };
    const auto y_of = [&](double part) { return kBottom - (kBottom - kTop) * 100 * part / most; };
    body += svg::words(left, kTop - 32, "head", panel_name(panels[panel]));
    body += svg::words(left, kTop - 14, "soft", "% of the jobs that wait longer than 15 minutes");
    body += svg::upward_axis(left, right, kTop, kBottom, most, step);
    const double every = std::max(0.1, svg::nice_step(most_load - least, 6));
    const auto last = static_cast<int>(std::floor(most_load / every + 1e-9));
    for (int tick = static_cast<int>(std::ceil(least / every - 1e-9)); tick <= last; ++tick)
      body += svg::words(x_of(tick * every), kBottom + 18, "time", fmt::format("{:.0f}%", 100 * tick * every));
    body += svg::words((left + right) / 2, kBottom + 36, "time", "load");
    for (size_t i = policies.size(); i-- > 0;) {
      std::string line;
      std::string upper;
      std::string lower;
      for (const LoadRow& row : rows) {
        if (row.nodes != panels[panel] || row.policy != policies[i]) continue;
        line += fmt::format("{:.1f},{:.1f} ", x_of(row.load), y_of(row.long_waits.mean));
        upper += fmt::format("{:.1f},{:.1f} ", x_of(row.load), y_of(row.long_waits.high));
        lower = fmt::format("{:.1f},{:.1f} ", x_of(row.load), y_of(row.long_waits.low)) + lower;
      }
      const char* colour = kColours[i % kColours.size()];
      body += fmt::format("<polygon fill=\"{}\" fill-opacity=\"0.18\" points=\"{}{}\"/>\n", colour, upper, lower);
      body += fmt::format("<polyline class=\"line\" stroke=\"{}\" points=\"{}\"/>\n", colour, line);
    }
  }
  const double width =
      kLeft + static_cast<double>(std::max<size_t>(1, panels.size())) * (kPanelWidth + kLeft) - kLeft / 2;
  return svg::document(width, kBottom + 56, title, body);
}

}  // namespace dl::sim
