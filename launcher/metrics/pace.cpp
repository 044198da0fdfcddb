// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/pace.h"

#include <algorithm>
#include <cmath>

#include "launcher/metrics/found.h"

namespace dl::metrics {
namespace {

constexpr double kMostSteps = 1e12;
constexpr double kMostLeftMs = 1e15;  // about 30,000 years: no estimate any more
constexpr int64_t kWindowMs = 60'000;
constexpr size_t kMostLookedAt = 1000;  // points of a series
constexpr int64_t kLeastSpanMs = 500;
constexpr int64_t kFreshMs = 60'000;
constexpr double kFreshSteps = 5;
constexpr double kAlike = 1.25;
constexpr int64_t kAlikeSteps = 100;

bool is_rate(double value) {
  return std::isfinite(value) && value > 0;
}

// Points of equal train steps, such as several values of one line, say nothing of the time between them.
void take_rate_of(const Series& series, Pace* pace) {
  const auto& points = series.points;
  if (points.size() < 2) return;
  const Point& last = points.back();
  if (last.step == kNoStep || last.time_ms < pace->rate_ms) return;
  const Point* first = nullptr;
  for (size_t i = points.size() - 1; i-- > 0 && points.size() - i <= kMostLookedAt;) {
    const Point& point = points[i];
    if (point.step == kNoStep || point.step > last.step || point.time_ms > last.time_ms) break;
    if (first != nullptr && last.time_ms - point.time_ms > kWindowMs) break;
    if (point.step < last.step && last.time_ms - point.time_ms >= kLeastSpanMs) first = &point;
  }
  if (first == nullptr) return;
  pace->rate_ms = last.time_ms;
  pace->steps_per_s =
      static_cast<double>(last.step - first->step) * 1000 / static_cast<double>(last.time_ms - first->time_ms);
}

bool is_loss(const Series& series) {
  return series.group == kTrain && lower(series.name).find("loss") != std::string::npos;
}

// "loss" itself before "ce_loss" and others.
const Series* loss_of(const SeriesFile& file) {
  const Series* found = nullptr;
  for (const Series& series : file.series) {
    if (!is_loss(series) || series.points.empty()) continue;
    if (lower(series.name) == "loss") return &series;
    if (found == nullptr) found = &series;
  }
  return found;
}

int64_t counted_total(const SeriesFile& file, int64_t step) {
  const auto total = file.positions.find(kTotalPosition);
  const auto counted = file.positions.find(kCountedPosition);
  if (total == file.positions.end() || counted == file.positions.end() || counted->second == 0) return 0;
  if (static_cast<double>(total->second) > kMostSteps || static_cast<double>(counted->second) > kMostSteps) return 0;
  const auto at = static_cast<int64_t>(counted->second) - 1;
  // A log may count batches of which several make a train step, or those of a data epoch.
  const auto low = static_cast<double>(std::min(at, step)), high = static_cast<double>(std::max(at, step));
  return high - low <= kAlikeSteps || high <= low * kAlike ? static_cast<int64_t>(total->second) : 0;
}

}  // namespace

Pace pace_of(const SeriesFile& file) {
  Pace pace;
  double told = 0;
  const Series *measured = nullptr, *samples = nullptr;
  for (const Series& series : file.series) {
    if (series.points.empty()) continue;
    const Point& last = series.points.back();
    pace.step = std::max(pace.step, last.step);
    if (series.group != kLauncher) {
      if (series.name == "total_steps") told = last.value;
    } else if (series.name == "train_steps_per_s") {
      measured = &series;
    } else if (series.name == "samples_per_s") {
      samples = &series;
    } else if (series.name == "save_s") {
      pace.saved_ms = last.time_ms;
      if (series.points.size() > 1)
        pace.between_saves_ms = std::max<int64_t>(0, last.time_ms - series.points[series.points.size() - 2].time_ms);
    }
  }
  if (measured != nullptr && is_rate(measured->points.back().value)) {
    pace.steps_per_s = measured->points.back().value;
    pace.rate_ms = measured->points.back().time_ms;
    if (samples != nullptr && is_rate(samples->points.back().value)) pace.samples_per_s = samples->points.back().value;
  } else if (measured == nullptr) {
    for (const Series& series : file.series)
      if (series.group != kLauncher) take_rate_of(series, &pace);
  }
  if (const Series* loss = loss_of(file)) {
    pace.loss_name = loss->name;
    pace.loss = loss->points.back().value;
  }
  if (std::isfinite(told) && told >= 1 && told <= kMostSteps) pace.total = static_cast<int64_t>(told);
  if (pace.total == 0) pace.total = counted_total(file, pace.step);
  if (pace.total < pace.step) pace.total = 0;
  return pace;
}

bool is_fresh(const Pace& pace, int64_t now_ms) {
  if (!pace.steps_per_s) return false;
  const double most = std::max(static_cast<double>(kFreshMs), kFreshSteps * 1000 / *pace.steps_per_s);
  return static_cast<double>(now_ms - pace.rate_ms) <= most;
}

UseNow use_now(const SeriesFile& file, int64_t now_ms) {
  UseNow use;
  for (const Series& series : file.series) {
    if (series.group != kUse || series.points.empty()) continue;
    const Point& last = series.points.back();
    if (now_ms - last.time_ms > kFreshMs || !std::isfinite(last.value) || last.value < 0) continue;
    if (series.name == "gpu_used_percent") use.gpu_percent = last.value;
    if (series.name == "cpus_used") use.cpus = last.value;
  }
  return use;
}

std::optional<int64_t> left_ms(const Pace& pace, int64_t step) {
  if (!pace.steps_per_s || pace.total <= 0 || step < 0) return std::nullopt;
  const double left = static_cast<double>(std::max<int64_t>(0, pace.total - step)) * 1000 / *pace.steps_per_s;
  return left <= kMostLeftMs ? std::optional(static_cast<int64_t>(left)) : std::nullopt;
}

int64_t next_save_ms(const Pace& pace, int64_t every_ms, int64_t every_steps, int64_t step, int64_t began_ms,
                     int64_t now_ms) {
  if (every_steps > 0) {
    if (!is_fresh(pace, now_ms) || step < 0) return 0;
    const double left = static_cast<double>(every_steps - step % every_steps) * 1000 / *pace.steps_per_s;
    return left <= kMostLeftMs ? now_ms + static_cast<int64_t>(left) : 0;
  }
  const int64_t from = pace.saved_ms > 0 ? pace.saved_ms : began_ms;
  if (every_ms > 0) return from > 0 ? from + every_ms : 0;
  return pace.saved_ms > 0 && pace.between_saves_ms > 0 ? pace.saved_ms + pace.between_saves_ms : 0;
}

}  // namespace dl::metrics
