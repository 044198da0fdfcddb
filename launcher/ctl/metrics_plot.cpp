// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/metrics_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "launcher/ctl/metrics_view.h"
#include "launcher/metrics/found.h"

namespace dl::ctl {
namespace {

using metrics::CurvePoint;
using metrics::kNoStep;

constexpr size_t kWhyWidth = 100, kMostMarks = 1000;

// A curve of a job, and what is drawn of it.
struct Drawn {
  const JobMetrics* job = nullptr;
  const JobCurve* curve = nullptr;
  std::vector<const CurvePoint*> points;
};

struct Unit {
  const char* name;
  double ms;
};
constexpr std::array kUnits{Unit{"seconds", 1e3}, Unit{"minutes", 60e3}, Unit{"hours", 3600e3}, Unit{"days", 86400e3}};
constexpr double kMostOfUnit = 300;  // then the next one is used

// When the first value of the job was measured.
double first_time(const JobMetrics& job) {
  double first = std::numeric_limits<double>::infinity();
  for (const JobCurve& curve : job.curves)
    for (const CurvePoint& point : curve.points) first = std::min(first, static_cast<double>(point.point.time_ms));
  return std::isfinite(first) ? first : 0;
}

std::string with_step(const CurvePoint& point) {
  const std::string value = value_text(point.point.value);
  return point.point.step == kNoStep ? value : value + " at " + std::to_string(point.point.step);
}

std::string note_of(const std::vector<const CurvePoint*>& points) {
  const CurvePoint *lowest = nullptr, *highest = nullptr;
  int64_t not_finite = 0;
  for (const CurvePoint* point : points) {
    const double value = point->point.value;
    if (!std::isfinite(value)) {
      ++not_finite;
      continue;
    }
    if (lowest == nullptr || value < lowest->point.value) lowest = point;
    if (highest == nullptr || value > highest->point.value) highest = point;
  }
  std::string text = "last " + with_step(*points.back());
  if (lowest != nullptr && points.size() > 1)
    text += ", lowest " + with_step(*lowest) + ", highest " + with_step(*highest);
  if (not_finite > 0) text += "; " + std::to_string(not_finite) + " not finite";
  return text;
}

class ChartMaker {
 public:
  ChartMaker(const std::vector<Drawn>& drawn, bool several_jobs) : drawn_(drawn), several_jobs_(several_jobs) {
    by_step_ = std::all_of(drawn.begin(), drawn.end(), [](const Drawn& one) {
      const auto with = std::count_if(one.points.begin(), one.points.end(),
                                      [](const CurvePoint* point) { return point->point.step != kNoStep; });
      return static_cast<size_t>(with) * 2 > one.points.size();
    });
  }

  plot::Chart make() {
    const JobCurve& first = *drawn_[0].curve;
    chart_.title = printable(first.name, kNameWidth);
    if (first.group == metrics::kLauncher) chart_.title += " (measured by dlrun)";
    if (!by_step_) choose_unit();
    chart_.axis = by_step_ ? "train step" : std::string(unit_.name) + " since the first value";
    int64_t hidden = 0, without_step = 0;
    for (const Drawn& one : drawn_) {
      hidden += static_cast<int64_t>(one.curve->points.size() - one.points.size());
      chart_.curves.push_back(curve_of(one, &without_step));
    }
    marks();
    if (without_step > 0) chart_.notes.push_back(count_text(without_step, "point") + " without a train step not drawn");
    if (hidden > 0)
      chart_.notes.push_back(count_text(hidden, "point") +
                             " that later attempts have superseded; dlctl metrics --all shows them, too");
    return std::move(chart_);
  }

 private:
  double origin(const JobMetrics& job) {
    const auto [found, made] = origins_.emplace(&job, 0);
    if (made) found->second = first_time(job);
    return found->second;
  }

  void choose_unit() {
    double longest = 0;
    for (const Drawn& one : drawn_)
      for (const CurvePoint* point : one.points)
        longest = std::max(longest, static_cast<double>(point->point.time_ms) - origin(*one.job));
    for (const Unit& unit : kUnits) {
      unit_ = unit;
      if (longest <= kMostOfUnit * unit.ms) return;
    }
  }

  double time_x(const JobMetrics& job, int64_t time_ms) {
    return (static_cast<double>(time_ms) - origin(job)) / unit_.ms;
  }

  plot::Curve curve_of(const Drawn& one, int64_t* without_step) {
    plot::Curve curve{name_of(one), note_of(one.points), {}};
    curve.samples.reserve(one.points.size());
    const CurvePoint* before = nullptr;
    for (const CurvePoint* point : one.points) {
      if (by_step_ && point->point.step == kNoStep) {
        ++*without_step;
        continue;
      }
      const double x = by_step_ ? static_cast<double>(point->point.step) : time_x(*one.job, point->point.time_ms);
      // An attempt that repeats what an earlier one did is a curve of its own.
      if (before != nullptr && before->attempt != point->attempt && x < curve.samples.back().x)
        curve.samples.push_back({x, std::numeric_limits<double>::quiet_NaN()});
      curve.samples.push_back({x, point->point.value});
      before = point;
    }
    return curve;
  }

  // By what it differs from the others of the chart.
  std::string name_of(const Drawn& one) const {
    const auto differs = [&](auto member) {
      return std::any_of(drawn_.begin(), drawn_.end(),
                         [&](const Drawn& other) { return member(other) != member(one); });
    };
    std::string name;
    const auto add = [&](const std::string& part) { name += (name.empty() ? "" : ", ") + part; };
    if (several_jobs_) add("job " + printable(one.job->job));
    if (!several_jobs_ || differs([](const Drawn& other) { return other.curve->group; }))
      add(printable(one.curve->group, kNameWidth));
    if (one.curve->rank != 0 || differs([](const Drawn& other) { return other.curve->rank; }))
      add("rank " + std::to_string(one.curve->rank));
    return name;
  }

  void marks() {
    std::set<const JobMetrics*> done;
    for (const Drawn& one : drawn_) {
      if (!done.insert(one.job).second) continue;
      for (const MetricsAttempt& attempt : one.job->attempts) {
        if (attempt.attempt <= 1 || chart_.marks.size() >= kMostMarks) continue;
        const std::optional<double> x = begin_of(one, attempt);
        if (!x) continue;
        const std::string name = "attempt " + std::to_string(attempt.attempt);
        std::string text = several_jobs_ ? "job " + printable(one.job->job) + ", " + name : name;
        if (attempt.step) text += " began with train step " + std::to_string(*attempt.step);
        if (!attempt.why.empty()) text += ", after: " + printable(attempt.why, kWhyWidth);
        chart_.marks.push_back({*x, name, std::move(text)});
      }
    }
    std::stable_sort(chart_.marks.begin(), chart_.marks.end(),
                     [](const plot::Mark& a, const plot::Mark& b) { return a.x < b.x; });
  }

  // Where on the axis an attempt began: as it is recorded, else with its first value in this chart.
  std::optional<double> begin_of(const Drawn& of, const MetricsAttempt& attempt) {
    if (by_step_ && attempt.step) return static_cast<double>(*attempt.step);
    if (!by_step_ && attempt.time_ms > 0) return std::max(0.0, time_x(*of.job, attempt.time_ms));
    std::optional<double> first;
    for (const Drawn& one : drawn_)
      for (const CurvePoint* point : one.points) {
        if (one.job != of.job || point->attempt != attempt.attempt || (by_step_ && point->point.step == kNoStep))
          continue;
        const double x = by_step_ ? static_cast<double>(point->point.step) : time_x(*one.job, point->point.time_ms);
        first = std::min(first.value_or(x), x);
      }
    return first;
  }

  const std::vector<Drawn>& drawn_;
  const bool several_jobs_;
  bool by_step_ = true;
  Unit unit_ = kUnits[0];
  std::map<const JobMetrics*, double> origins_;
  plot::Chart chart_;
};

std::vector<std::string> notes_of(const std::vector<JobMetrics>& jobs) {
  std::vector<std::string> notes;
  for (const JobMetrics& job : jobs) {
    const std::string of = jobs.size() > 1 ? "job " + printable(job.job) + ", " : "";
    for (size_t i = 0; i < job.notes.size() && i < kMostShownNotes; ++i)
      notes.push_back(of + printable(job.notes[i], 300));
    if (job.notes.size() > kMostShownNotes)
      notes.push_back(fmt::format("{}{} more notes", of, job.notes.size() - kMostShownNotes));
  }
  return notes;
}

std::string left_out(size_t charts) {
  return count_text(static_cast<int64_t>(charts), "further metric") + " not drawn; choose with --name and --group";
}

plot::Drawing drawing(const std::vector<JobMetrics>& jobs, bool superseded, size_t most, svg::Ground ground) {
  std::vector<plot::Chart> charts = metrics_charts(jobs, superseded);
  std::vector<std::string> notes = notes_of(jobs);
  if (charts.size() > most) {
    notes.insert(notes.begin(), left_out(charts.size() - most));
    charts.resize(most);
  }
  if (!charts.empty()) charts.back().notes.insert(charts.back().notes.end(), notes.begin(), notes.end());
  std::string names;
  for (const JobMetrics& job : jobs) names += (names.empty() ? "" : ", ") + printable(job.job);
  const std::string title = (jobs.size() > 1 ? "Metrics of jobs " : "Metrics of job ") + printable(names, 100);
  return plot::drawing_of(charts, title, ground);
}

}  // namespace

std::vector<plot::Chart> metrics_charts(const std::vector<JobMetrics>& jobs, bool superseded) {
  std::vector<std::vector<Drawn>> charts;
  std::map<std::pair<bool, std::string>, size_t> places;  // of charts, by whether dlrun measures it, and the name
  for (const JobMetrics& job : jobs)
    for (const JobCurve& curve : job.curves) {
      Drawn drawn{&job, &curve, {}};
      for (const CurvePoint& point : curve.points)
        if (superseded || !point.superseded) drawn.points.push_back(&point);
      if (drawn.points.empty()) continue;
      const auto [place, made] =
          places.emplace(std::pair(curve.group == metrics::kLauncher, curve.name), charts.size());
      if (made) charts.emplace_back();
      charts[place->second].push_back(std::move(drawn));
    }
  const auto rank = [](const std::vector<Drawn>& chart) {
    if (chart[0].curve->group == metrics::kLauncher) return 2;
    return metrics::lower(chart[0].curve->name).find("loss") == std::string::npos ? 1 : 0;
  };
  std::stable_sort(charts.begin(), charts.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::vector<plot::Chart> made;
  for (const auto& drawn : charts) made.push_back(ChartMaker(drawn, jobs.size() > 1).make());
  return made;
}

std::string metrics_plot(const std::vector<JobMetrics>& jobs, bool superseded, const plot::TextStyle& style) {
  const std::vector<plot::Chart> charts = metrics_charts(jobs, superseded);
  std::string text;
  for (size_t i = 0; i < std::min(charts.size(), kMostTextCharts); ++i)
    text += (i > 0 ? "\n" : "") + plot::text_of(charts[i], style);
  if (charts.size() > kMostTextCharts) text += "\n" + left_out(charts.size() - kMostTextCharts) + "\n";
  for (const std::string& note : notes_of(jobs)) text += note + "\n";
  return text;
}

std::string metrics_svg(const std::vector<JobMetrics>& jobs, bool superseded) {
  return drawing(jobs, superseded, kMostSvgCharts, svg::Ground::kBoth).svg;
}

plot::Drawing metrics_drawing(const std::vector<JobMetrics>& jobs, bool superseded) {
  return drawing(jobs, superseded, kMostPngCharts, svg::Ground::kLight);
}

}  // namespace dl::ctl
