// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/metrics_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostRows = 200;

using metrics::CurvePoint;
using metrics::kNoStep;

struct Summary {
  size_t points = 0, hidden = 0;
  const CurvePoint* last = nullptr;
  const CurvePoint* lowest = nullptr;
  const CurvePoint* highest = nullptr;
};

Summary summary_of(const JobCurve& curve, bool superseded) {
  Summary sum;
  for (const CurvePoint& point : curve.points) {
    if (point.superseded && !superseded) {
      ++sum.hidden;
      continue;
    }
    ++sum.points;
    sum.last = &point;
    const double value = point.point.value;
    if (!std::isfinite(value)) continue;
    if (sum.lowest == nullptr || value < sum.lowest->point.value) sum.lowest = &point;
    if (sum.highest == nullptr || value > sum.highest->point.value) sum.highest = &point;
  }
  return sum;
}

std::string step_text(int64_t step) {
  return step == kNoStep ? "-" : std::to_string(step);
}

std::string extreme(const CurvePoint* point) {
  if (point == nullptr) return "-";
  const std::string value = value_text(point->point.value);
  return point->point.step == kNoStep ? value : value + " at " + std::to_string(point->point.step);
}

std::string csv_field(const std::string& text) {
  const std::string safe = printable(text, 2 * metrics::kMostName);
  if (safe.find_first_of(",\"") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// JSON knows no infinities and no NaN.
Json json_value(double value) {
  if (std::isfinite(value)) return value;
  return value_text(value);
}

Json curve_json(const JobCurve& curve, bool superseded) {
  Json steps = Json::array(), times = Json::array(), values = Json::array(), attempts = Json::array(),
       marks = Json::array();
  for (const CurvePoint& point : curve.points) {
    if (point.superseded && !superseded) continue;
    steps.push_back(point.point.step == kNoStep ? Json() : Json(point.point.step));
    times.push_back(point.point.time_ms);
    values.push_back(json_value(point.point.value));
    attempts.push_back(point.attempt);
    marks.push_back(point.superseded);
  }
  Json object = {{"rank", curve.rank}, {"group", curve.group}, {"name", curve.name}};
  object["step"] = std::move(steps);
  object["time_ms"] = std::move(times);
  object["value"] = std::move(values);
  object["attempt"] = std::move(attempts);
  if (superseded) object["superseded"] = std::move(marks);
  return object;
}

}  // namespace

std::string value_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return fmt::format("{:.6g}", value);
}

std::string metrics_table(const std::vector<JobMetrics>& jobs, bool superseded) {
  const bool several = jobs.size() > 1;
  bool ranks = false;
  for (const JobMetrics& job : jobs)
    for (const JobCurve& curve : job.curves) ranks = ranks || curve.rank != 0;
  std::vector<std::string> head;
  if (several) head.emplace_back("JOB");
  for (const char* title : {"METRIC", "GROUP"}) head.emplace_back(title);
  if (ranks) head.emplace_back("RANK");
  for (const char* title : {"POINTS", "STEP", "LAST", "LOWEST", "HIGHEST"}) head.emplace_back(title);
  // The same metric of several jobs stands together.
  std::vector<std::pair<const JobCurve*, const JobMetrics*>> order;
  for (const JobMetrics& job : jobs)
    for (const JobCurve& curve : job.curves) order.emplace_back(&curve, &job);
  if (several)
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first->group, a.first->name) < std::tie(b.first->group, b.first->name);
    });
  std::vector<std::vector<std::string>> rows{head};
  size_t hidden = 0, left_out = 0;
  for (const auto& [curve, job] : order) {
    const Summary sum = summary_of(*curve, superseded);
    hidden += sum.hidden;
    if (sum.points == 0) continue;
    if (rows.size() > kMostRows) {
      ++left_out;
      continue;
    }
    std::vector<std::string> row;
    if (several) row.push_back(printable(job->job));
    row.push_back(printable(curve->name, kNameWidth));
    row.push_back(printable(curve->group, kNameWidth));
    if (ranks) row.push_back(std::to_string(curve->rank));
    row.push_back(std::to_string(sum.points));
    row.push_back(step_text(sum.last->point.step));
    row.push_back(value_text(sum.last->point.value));
    row.push_back(extreme(sum.lowest));
    row.push_back(extreme(sum.highest));
    rows.push_back(std::move(row));
  }
  std::string text = table(rows);
  if (left_out > 0)
    text += fmt::format("{} not shown; choose with --name and --group\n",
                        count_text(static_cast<int64_t>(left_out), "curve"));
  for (const JobMetrics& job : jobs) {
    const std::string of = several ? "job " + printable(job.job) + ", " : "";
    for (const MetricsAttempt& attempt : job.attempts)
      if (attempt.step && (attempt.attempt > 1 || job.attempts.size() > 1))
        text += fmt::format("{}attempt {} began with train step {}\n", of, attempt.attempt, *attempt.step);
    for (size_t i = 0; i < job.notes.size() && i < kMostShownNotes; ++i)
      text += of + printable(job.notes[i], 300) + "\n";
    if (job.notes.size() > kMostShownNotes)
      text += fmt::format("{}{} more notes\n", of, job.notes.size() - kMostShownNotes);
  }
  if (hidden > 0)
    text += fmt::format("{} that later attempts have superseded; --all shows them, too\n",
                        count_text(static_cast<int64_t>(hidden), "point"));
  return text;
}

std::string metrics_csv(const std::vector<JobMetrics>& jobs, bool superseded) {
  std::string text = "job,rank,group,name,attempt,step,time_ms,value,superseded\n";
  for (const JobMetrics& job : jobs)
    for (const JobCurve& curve : job.curves) {
      const std::string begin =
          fmt::format("{},{},{},{},", csv_field(job.job), curve.rank, csv_field(curve.group), csv_field(curve.name));
      for (const CurvePoint& point : curve.points) {
        if (point.superseded && !superseded) continue;
        const std::string step = point.point.step == kNoStep ? "" : std::to_string(point.point.step);
        const double exact = point.point.value;
        text +=
            fmt::format("{}{},{},{},{},{}\n", begin, point.attempt, step, point.point.time_ms,
                        std::isfinite(exact) ? fmt::format("{}", exact) : value_text(exact), point.superseded ? 1 : 0);
      }
    }
  return text;
}

std::string metrics_json(const std::vector<JobMetrics>& jobs, bool superseded) {
  Json all = Json::array();
  for (const JobMetrics& job : jobs) {
    Json attempts = Json::array(), series = Json::array(), notes = Json::array();
    for (const MetricsAttempt& attempt : job.attempts)
      attempts.push_back({{"attempt", attempt.attempt},
                          {"time_ms", attempt.time_ms > 0 ? Json(attempt.time_ms) : Json()},
                          {"step", attempt.step ? Json(*attempt.step) : Json()}});
    for (const JobCurve& curve : job.curves) series.push_back(curve_json(curve, superseded));
    for (const std::string& note : job.notes) notes.push_back(note);
    Json object = {{"job", job.job}};
    object["attempts"] = std::move(attempts);
    object["series"] = std::move(series);
    object["notes"] = std::move(notes);
    all.push_back(std::move(object));
  }
  Json answer = Json::object();
  answer["jobs"] = std::move(all);
  return answer.dump() + "\n";
}

}  // namespace dl::ctl
