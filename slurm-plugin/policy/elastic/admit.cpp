// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/elastic/admit.h"

#include "slurm-plugin/policy/elastic/value.h"

namespace dl::policy::elastic {
namespace {

bool fits(const Job& job, int type, const std::vector<Limits>& left) {
  const int fewest = fewest_gpus(job, type);
  return fewest > 0 && fewest <= left[type].left(job.share);
}

int best_type(const Problem& problem, int index, const std::vector<Limits>& left) {
  const Job& job = problem.jobs[index];
  if (job.now != kNothing && fits(job, job.points[job.now].type, left)) return job.points[job.now].type;
  int best = kNothing;
  double best_worth = 0;
  const bool waits = may_wait(problem, job);
  for (int type = 0; type < problem.types; ++type) {
    if (waits ? fewest_gpus(job, type) == 0 : !fits(job, type, left)) continue;
    const Option first = options_of(problem, index, type)[waits ? 1 : 0];
    const double worth = first.value / first.gpus;
    if (best != kNothing && worth <= best_worth) continue;
    best = type;
    best_worth = worth;
  }
  return best;
}

}  // namespace

int fewest_gpus(const Job& job, int type) {
  int fewest = 0;
  for (const Point& point : job.points)
    if (point.type == type && (fewest == 0 || point.gpus < fewest)) fewest = point.gpus;
  return fewest;
}

std::vector<int> admit(const Problem& problem, std::vector<Limits>* left) {
  std::vector<int> types(problem.jobs.size(), kNothing);
  for (const bool running : {true, false}) {
    for (size_t i = 0; i < problem.jobs.size(); ++i) {
      const Job& job = problem.jobs[i];
      if ((job.now != kNothing) != running) continue;
      types[i] = best_type(problem, static_cast<int>(i), *left);
      if (types[i] != kNothing && !may_wait(problem, job))
        (*left)[types[i]].take(job.share, fewest_gpus(job, types[i]));
    }
  }
  return types;
}

}  // namespace dl::policy::elastic
