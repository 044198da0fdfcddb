// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/elastic/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/cli/svg.h"
#include "common/json/json.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

constexpr double kWidth = 980;
constexpr double kLeft = 72;
constexpr double kRight = 24;
constexpr double kPanel = 170;
// The colours of Okabe and Ito, as in report/svg.cpp.
constexpr std::array kColours{"#0072b2", "#56b4e9", "#cc79a7", "#e69f00", "#d55e00", "#009e73", "#7f7f7f"};

const char* admission(const SweepRow& row) {
  return row.drop ? "drop" : "hold";
}

class Picture {
 public:
  explicit Picture(const std::vector<SweepRow>& rows) : rows_(rows) {
    for (const SweepRow& row : rows) most_load_ = std::max(most_load_, row.load);
  }

  std::string draw(const std::string& title) {
    body_ += svg::words(kLeft, 32, "title", title);
    double x = kLeft;
    for (size_t i = 0; i < elastic_policies().size(); ++i) {
      const std::string name = elastic_policies()[i].name;
      body_ += line_tag(i, fmt::format("{:.1f},56 {:.1f},56", x, x + 24));
      body_ += svg::words(x + 30, 60, "name", name);
      x += 48 + 7.6 * static_cast<double>(name.size());
    }
    for (const bool drop : {false, true}) {
      if (std::none_of(rows_.begin(), rows_.end(), [&](const SweepRow& row) { return row.drop == drop; })) continue;
      const std::string how = drop ? ", a job without room is dropped" : ", a job without room waits";
      panel("jobs completed" + how, drop, [](const ElasticOutcome& o) { return static_cast<double>(o.completed); });
      if (drop) panel("jobs dropped", drop, [](const ElasticOutcome& o) { return static_cast<double>(o.dropped); });
      panel("mean minutes from submission to the end" + how, drop,
            [](const ElasticOutcome& o) { return o.mean_jct_s / 60; });
    }
    return svg::document(kWidth, y_, title, body_);
  }

 private:
  static std::string line_tag(size_t policy, const std::string& points) {
    return fmt::format("<polyline class=\"line\" stroke=\"{}\" points=\"{}\"/>\n", kColours[policy % kColours.size()],
                       points);
  }

  double x_of(double load) const { return kLeft + (kWidth - kLeft - kRight) * load / (most_load_ * 1.02); }

  void panel(const std::string& heading, bool drop, double (*value)(const ElasticOutcome&)) {
    double most = 1;
    for (const SweepRow& row : rows_)
      if (row.drop == drop) most = std::max(most, value(row.outcome));
    const double step = svg::nice_step(most, 4);
    most = std::ceil(most / step) * step;
    body_ += svg::words(kLeft, y_, "head", heading);
    const double top = y_ + 12;
    const double bottom = top + kPanel;
    body_ += svg::upward_axis(kLeft, kWidth - kRight, top, bottom, most, step);
    const double every = svg::nice_step(most_load_, 6);
    for (int tick = 0; tick * every <= most_load_ * 1.0001; ++tick)
      body_ +=
          svg::words(x_of(tick * every), bottom + 18, "time", tick == 0 ? "0 load" : fmt::format("{:g}", tick * every));
    for (size_t i = elastic_policies().size(); i-- > 0;) {
      std::string points;
      for (const SweepRow& row : rows_)
        if (row.drop == drop && row.outcome.policy == elastic_policies()[i].name)
          points += fmt::format("{:.1f},{:.1f} ", x_of(row.load), bottom - kPanel * value(row.outcome) / most);
      if (!points.empty()) body_ += line_tag(i, points);
    }
    y_ = bottom + 48;
  }

  const std::vector<SweepRow>& rows_;
  double most_load_ = 0;
  double y_ = 92;
  std::string body_;
};

}  // namespace

std::string sweep_table(const std::vector<SweepRow>& rows) {
  std::string text =
      fmt::format("{:<5} {:>5}  {:<19} {:>7} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7}\n", "admit", "load", "policy",
                  "jobs", "completed", "dropped", "mean", "p99", "wait", "use", "resizes");
  for (const SweepRow& row : rows) {
    const ElasticOutcome& o = row.outcome;
    text += fmt::format("{:<5} {:>5g}  {:<19} {:>7} {:>9} {:>8} {:>8} {:>8} {:>8} {:>5.1f}% {:>7.2f}\n", admission(row),
                        row.load, o.policy, o.jobs, o.completed, o.dropped, short_time(o.mean_jct_s),
                        short_time(o.p99_jct_s), short_time(o.mean_wait_s), 100 * o.utilisation, o.resizes);
  }
  return text;
}

std::string sweep_json(const std::vector<SweepRow>& rows) {
  Json all = Json::array();
  for (const SweepRow& row : rows) {
    const ElasticOutcome& o = row.outcome;
    Json one;
    one["admission"] = admission(row);
    one["load"] = row.load;
    one["policy"] = o.policy;
    one["jobs"] = o.jobs;
    one["completed"] = o.completed;
    one["dropped"] = o.dropped;
    one["mean_completion_s"] = o.mean_jct_s;
    one["p99_completion_s"] = o.p99_jct_s;
    one["mean_wait_s"] = o.mean_wait_s;
    one["utilisation"] = o.utilisation;
    one["resizes_per_job"] = o.resizes;
    one["solver_mean_ms"] = o.solver_mean_ms;
    one["solver_max_ms"] = o.solver_max_ms;
    one["wall_s"] = o.wall_s;
    all.push_back(std::move(one));
  }
  return all.dump(1) + "\n";
}

std::string sweep_svg(const std::vector<SweepRow>& rows, const std::string& title) {
  return Picture(rows).draw(title);
}

}  // namespace dl::sim
