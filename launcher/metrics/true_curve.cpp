// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/true_curve.h"

#include <algorithm>
#include <limits>
#include <map>

namespace dl::metrics {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kAlways = std::numeric_limits<int64_t>::min();

// When the train step was saved for the last time before `until_ms`; kNever if it is not known to have been.
int64_t saved_at(const std::vector<Saved>& saved, int64_t step, int64_t until_ms) {
  int64_t time = kNever;
  for (const Saved& one : saved)
    if (one.step == step && one.time_ms <= until_ms && (time == kNever || one.time_ms > time)) time = one.time_ms;
  return time;
}

}  // namespace

std::vector<CurvePoint> curve_of(const std::vector<Piece>& pieces, const std::vector<AttemptStart>& starts,
                                 const std::vector<Saved>& saved) {
  std::map<int, std::vector<const Piece*>> by_attempt;
  for (const Piece& piece : pieces) by_attempt[piece.attempt].push_back(&piece);
  std::map<int, int64_t> begins, times;  // of attempts: with which step, and when
  for (const auto& [attempt, its] : by_attempt)
    for (const Piece* piece : its)
      for (const Point& point : piece->points) {
        if (point.step == kNoStep) continue;
        const auto [place, made] = begins.emplace(attempt, point.step);
        if (!made) place->second = std::min(place->second, point.step);
      }
  for (const AttemptStart& start : starts) {
    if (start.step) begins[start.attempt] = *start.step;
    if (start.time_ms > 0) times[start.attempt] = start.time_ms;
  }
  // From the last attempt to the first: what a later one repeats.
  std::vector<CurvePoint> curve;
  int64_t step_bound = kNever, time_bound = kNever;
  auto begin = begins.rbegin();
  for (auto attempt = by_attempt.rbegin(); attempt != by_attempt.rend(); ++attempt) {
    for (; begin != begins.rend() && begin->first > attempt->first; ++begin) {
      step_bound = std::min(step_bound, begin->second);
      const auto time = times.find(begin->first);
      const int64_t until = time == times.end() ? kNever : time->second;
      time_bound = std::min(time_bound, begin->second == 0 ? kAlways : saved_at(saved, begin->second, until));
    }
    std::vector<CurvePoint> its;
    for (const Piece* piece : attempt->second)
      for (const Point& point : piece->points) {
        const bool superseded = point.step == kNoStep ? point.time_ms > time_bound : point.step >= step_bound;
        its.push_back({point, attempt->first, superseded});
      }
    curve.insert(curve.end(), its.rbegin(), its.rend());
  }
  std::reverse(curve.begin(), curve.end());
  return curve;
}

}  // namespace dl::metrics
