// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/elastic/value.h"

#include <algorithm>

namespace dl::policy::elastic {
namespace {

// The best speed at the fewest GPUs.
double base_speed(const Job& job) {
  const Point* base = &job.points.front();
  for (const Point& point : job.points)
    if (point.gpus < base->gpus || (point.gpus == base->gpus && point.speed > base->speed)) base = &point;
  return base->speed;
}

double gain_per_gpu(const Option& from, const Option& to) {
  return (to.value - from.value) / (to.gpus - from.gpus);
}

double value_at(const Job& job, int point, double base, double factor) {
  const double value = job.weight * (job.points[point].speed / base);
  return point == job.now ? value : value * factor;
}

}  // namespace

double factor_of_change(const Problem& problem, const Job& job) {
  if (job.now == kNothing) return 1;
  const double whole = job.age_s + job.restart_s;
  const double kept = whole > 0 ? std::max(0.0, (job.age_s - job.restarts * job.restart_s) / whole) : 1;
  return kept * (1 - problem.least_gain);
}

double value_of(const Problem& problem, int job, int point) {
  const Job& it = problem.jobs[job];
  return value_at(it, point, base_speed(it), factor_of_change(problem, it));
}

std::vector<Option> options_of(const Problem& problem, int job, int type) {
  const Job& it = problem.jobs[job];
  const double base = base_speed(it);
  const double factor = factor_of_change(problem, it);
  std::vector<Option> all;
  for (size_t i = 0; i < it.points.size(); ++i)
    if (it.points[i].type == type)
      all.push_back({it.points[i].gpus, value_at(it, static_cast<int>(i), base, factor), static_cast<int>(i)});
  // Of equal ones the present one, then the first: nothing is changed for nothing.
  std::sort(all.begin(), all.end(), [&](const Option& a, const Option& b) {
    if (a.gpus != b.gpus) return a.gpus < b.gpus;
    if (a.value != b.value) return a.value > b.value;
    if ((a.point == it.now) != (b.point == it.now)) return a.point == it.now;
    return a.point < b.point;
  });
  std::vector<Option> kept;
  for (const Option& option : all)
    if (kept.empty() || option.value > kept.back().value) kept.push_back(option);
  return kept;
}

std::vector<int> envelope(const std::vector<Option>& options) {
  std::vector<int> line;
  for (size_t i = 0; i < options.size(); ++i) {
    while (line.size() >= 2 && gain_per_gpu(options[line[line.size() - 2]], options[line.back()]) <=
                                   gain_per_gpu(options[line.back()], options[i]))
      line.pop_back();
    line.push_back(static_cast<int>(i));
  }
  return line;
}

}  // namespace dl::policy::elastic
