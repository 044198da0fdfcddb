// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/elastic/value.h"

#include <algorithm>

namespace dl::policy::elastic {
namespace {

// The fastest of those points with the fewest GPUs that `counts` names; nullptr if it names none.
template <typename Counts>
const Point* smallest(const Job& job, Counts counts) {
  const Point* least = nullptr;
  for (const Point& point : job.points)
    if (counts(point) &&
        (least == nullptr || point.gpus < least->gpus || (point.gpus == least->gpus && point.speed > least->speed)))
      least = &point;
  return least;
}

// What speed-ups on one type of GPU are measured by.
struct Scale {
  double base = 1;  // speed of 1
  double most = 1;  // speed-up for each GPU that counts
  double of(const Point& point) const { return std::min(point.speed / base, most * point.gpus); }
};

Scale scale_of(const Job& job, int type) {
  const Point* base = smallest(job, [](const Point&) { return true; });
  const Point* here = smallest(job, [&](const Point& point) { return point.type == type; });
  Scale scale{base->speed, 0};
  if (here == nullptr) return scale;
  scale.most = std::min(here->speed / base->speed / here->gpus, kMostTypeRatio / base->gpus);
  return scale;
}

double gain_per_gpu(const Option& from, const Option& to) {
  return (to.value - from.value) / (to.gpus - from.gpus);
}

// What a job is worth at its points on one type.
class Worth {
 public:
  Worth(const Problem& problem, const Job& job, int type)
      : problem_(problem),
        job_(job),
        scale_(scale_of(job, type)),
        left_s_(job.left_s > 0 ? job.left_s : kUnknownLeftS) {}

  double at(int point) const {
    const double speed_up = scale_.of(job_.points[point]);
    const bool changes = job_.now != kNothing && point != job_.now;
    if (problem_.objective == Objective::kSpeedUp)
      return job_.weight * speed_up * (changes ? factor_of_change(problem_, job_) : 1);
    const double end_s = kNearestEndS + left_s_ / speed_up + (changes ? job_.restart_s : 0);
    return job_.weight * (changes ? 1 - problem_.least_gain : 1) * (1 + job_.waited_s / (kNearestEndS + left_s_)) /
           end_s;
  }

 private:
  const Problem& problem_;
  const Job& job_;
  const Scale scale_;
  const double left_s_;
};

}  // namespace

bool may_wait(const Problem& problem, const Job& job) {
  return problem.objective == Objective::kCompletion && job.now == kNothing;
}

double factor_of_change(const Problem& problem, const Job& job) {
  if (job.now == kNothing) return 1;
  const double whole = job.age_s + job.restart_s;
  const double kept = whole > 0 ? std::max(0.0, (job.age_s - job.restarts * job.restart_s) / whole) : 1;
  return kept * (1 - problem.least_gain);
}

double value_of(const Problem& problem, int job, int point) {
  const Job& it = problem.jobs[job];
  return Worth(problem, it, it.points[point].type).at(point);
}

std::vector<Option> options_of(const Problem& problem, int job, int type) {
  const Job& it = problem.jobs[job];
  const Worth worth(problem, it, type);
  std::vector<Option> all;
  for (size_t i = 0; i < it.points.size(); ++i)
    if (it.points[i].type == type)
      all.push_back({it.points[i].gpus, worth.at(static_cast<int>(i)), static_cast<int>(i)});
  // Of equal ones the present one, then the fastest, then the first: nothing is changed for nothing.
  std::sort(all.begin(), all.end(), [&](const Option& a, const Option& b) {
    if (a.gpus != b.gpus) return a.gpus < b.gpus;
    if (a.value != b.value) return a.value > b.value;
    if ((a.point == it.now) != (b.point == it.now)) return a.point == it.now;
    // Speed-ups that are cut off are equal; the speeds may differ.
    const double fast = it.points[a.point].speed;
    const double other = it.points[b.point].speed;
    return fast != other ? fast > other : a.point < b.point;
  });
  std::vector<Option> kept;
  if (may_wait(problem, it) && !all.empty()) kept.push_back({0, 0, kNothing});
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
