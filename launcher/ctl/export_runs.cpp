// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/export_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/letters.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/metrics_view.h"
#include "launcher/metrics/scalar_events.h"

namespace dl::ctl {
namespace {

constexpr size_t kGroupWidth = 60, kMetricWidth = 160, kRunWidth = 100;
constexpr const char* kAttemptTag = "attempt";

using metrics::CurvePoint;
using metrics::kNoStep;

// One part of a tag: what all three programs, and MLflow's file names, take in a name.
std::string tag_part(std::string_view text, size_t width) {
  std::string part;
  for (size_t at = 0; at < text.size() && part.size() < width;) {
    const size_t letter = letter_at(text.substr(at));
    const char c = text[at];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_-. :").find(c) != std::string_view::npos;
    if (letter > 0)
      part += text.substr(at, letter);
    else
      part += plain ? c : '_';
    at += std::max(letter, size_t{1});
  }
  part = std::string(trim(part));
  return part.empty() || part == "." || part == ".." ? "_" : part;
}

std::string tag_of(const JobCurve& curve) {
  std::string tag = tag_part(curve.group, kGroupWidth);
  // A name may have parts itself ("Loss/encoder").
  for (const std::string& part : split(std::string_view(curve.name).substr(0, kMetricWidth), '/'))
    tag += "/" + tag_part(part, kMetricWidth);
  if (curve.name.empty()) tag += "/_";
  if (curve.rank != 0) tag += "/rank-" + std::to_string(curve.rank);
  // W&B keeps names that begin so for itself.
  return tag[0] == '_' ? "x" + tag : tag;
}

double first_time_of(const JobMetrics& job) {
  double first = INFINITY;
  for (const JobCurve& curve : job.curves)
    for (const CurvePoint& point : curve.points) first = std::min(first, static_cast<double>(point.point.time_ms));
  return first;
}

int64_t seconds_since(double first_ms, int64_t time_ms) {
  constexpr double kMostSeconds = 1e12;
  return static_cast<int64_t>(std::clamp((static_cast<double>(time_ms) - first_ms) / 1000, 0.0, kMostSeconds));
}

// The first point of each attempt, by train steps where a series has them.
ExportSeries attempts_of(const ExportRun& run) {
  ExportSeries series{kAttemptTag, false, {}};
  for (const ExportSeries& one : run.series) series.by_step = series.by_step || one.by_step;
  std::map<int, ExportPoint> first;
  for (const ExportSeries& one : run.series) {
    if (one.by_step != series.by_step) continue;
    for (ExportPoint point : one.points) {
      point.value = point.attempt;
      const auto [found, made] = first.emplace(point.attempt, point);
      if (!made && point.time_ms < found->second.time_ms) found->second = point;
    }
  }
  for (const auto& [attempt, point] : first) series.points.push_back(point);
  return series;
}

class Exporter {
 public:
  Exporter(const JobMetrics& job, bool all) : job_(job), all_(all), first_ms_(first_time_of(job)) {}

  ExportedJob make() {
    for (const JobCurve& curve : job_.curves) add(curve);
    for (auto& [attempt, run] : runs_) {
      for (const ExportSeries& series : run.series) made_.points += static_cast<int64_t>(series.points.size());
      ExportSeries attempts = attempts_of(run);
      run.series.push_back(std::move(attempts));
      made_.runs.push_back(std::move(run));
    }
    return std::move(made_);
  }

 private:
  void add(const JobCurve& curve) {
    size_t shown = 0, with_step = 0;
    for (const CurvePoint& point : curve.points) {
      if (point.superseded && !all_) continue;
      ++shown;
      if (point.point.step != kNoStep) ++with_step;
    }
    made_.superseded += static_cast<int64_t>(curve.points.size() - shown);
    const bool by_step = 2 * with_step > shown;
    std::map<int, ExportSeries> pieces;  // by the attempt of their run
    for (const CurvePoint& point : curve.points) {
      if (point.superseded && !all_) continue;
      if (by_step && point.point.step == kNoStep) {
        ++made_.without_step;
        continue;
      }
      const int64_t step = by_step ? point.point.step : seconds_since(first_ms_, point.point.time_ms);
      pieces[all_ ? point.attempt : 0].points.push_back({step, point.point.time_ms, point.point.value, point.attempt});
    }
    for (auto& [attempt, series] : pieces) {
      series.tag = unused(attempt, tag_of(curve));
      series.by_step = by_step;
      runs_[attempt].attempt = attempt;
      runs_[attempt].series.push_back(std::move(series));
    }
  }

  // The tag, with a number behind it where another series of the run has it.
  std::string unused(int attempt, const std::string& tag) {
    std::set<std::string>& used = used_[attempt];
    std::string name = tag;
    for (int next = 2; !used.insert(name).second; ++next) name = tag + "_" + std::to_string(next);
    return name;
  }

  const JobMetrics& job_;
  const bool all_;
  const double first_ms_;
  std::map<int, ExportRun> runs_;
  std::map<int, std::set<std::string>> used_;
  ExportedJob made_;
};

Json series_json(const ExportSeries& series) {
  Json steps = Json::array(), times = Json::array(), values = Json::array(), attempts = Json::array();
  for (const ExportPoint& point : series.points) {
    steps.push_back(point.step);
    times.push_back(point.time_ms);
    // JSON knows no infinities and no NaN.
    values.push_back(std::isfinite(point.value) ? Json(point.value) : Json(value_text(point.value)));
    attempts.push_back(point.attempt);
  }
  Json object = {{"tag", series.tag}, {"axis", series.by_step ? "step" : "seconds"}};
  object["step"] = std::move(steps);
  object["time_ms"] = std::move(times);
  object["value"] = std::move(values);
  object["attempt"] = std::move(attempts);
  return object;
}

}  // namespace

ExportedJob exported(const JobMetrics& job, bool all) {
  return Exporter(job, all).make();
}

std::string run_file_name(const std::string& job) {
  std::string name;
  for (const char c : job.substr(0, kRunWidth))
    name += is_plain_name({&c, 1}) || c == '.' || c == '_' || c == '-' ? c : '_';
  return name.empty() || name[0] == '.' || name[0] == '-' ? "job" + name : name;
}

std::string event_file(const ExportRun& run) {
  std::vector<std::pair<const ExportPoint*, const std::string*>> order;
  for (const ExportSeries& series : run.series)
    for (const ExportPoint& point : series.points) order.emplace_back(&point, &series.tag);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first->time_ms < b.first->time_ms; });
  std::string file = metrics::events_begin(order.empty() ? 0 : order[0].first->time_ms);
  for (const auto& [point, tag] : order) file += metrics::scalar_event(point->time_ms, point->step, *tag, point->value);
  return file;
}

std::string export_json(const JobMetrics& job, const std::string& directory, const std::string& state,
                        const ExportedJob& exported) {
  Json runs = Json::array();
  for (const ExportRun& run : exported.runs) {
    Json series = Json::array();
    for (const ExportSeries& one : run.series) series.push_back(series_json(one));
    Json object = {{"attempt", run.attempt}};
    object["series"] = std::move(series);
    runs.push_back(std::move(object));
  }
  Json object = {{"job", job.job}, {"directory", directory}, {"state", state}};
  object["runs"] = std::move(runs);
  return object.dump();
}

}  // namespace dl::ctl
