// SPDX-License-Identifier: Apache-2.0
// What a job is worth at each of its sizes, and the sizes that can be worth choosing.
#pragma once

#include <vector>

#include "slurm-plugin/policy/elastic/problem.h"

namespace dl::policy::elastic {

// Speeds are what programs say of themselves. So a speed-up counts only as far as it can be true: on one type of GPU it
// is at most in proportion to the GPUs, and the GPUs of one type are at most so many times as fast as another's. A
// program that lies can thereby come to its largest size within its tenant's limits, and to nothing else: what the
// others get of the rest is as good as without it.
constexpr double kMostTypeRatio = 64;

// The job's speed-up: weight x speed / speed at its smallest size, within these bounds. For a running job, at any other
// point than its present one, multiplied by (age - restarts x restart_s) / (age + restart_s), not below 0, as in Pollux
// (OSDI 2021, section 4.2), so that young and often changed jobs are changed last; and by (1 - least_gain).
double value_of(const Problem& problem, int job, int point);

// The factor by which a change multiplies a running job's value, as said above; 1 for a job that waits.
double factor_of_change(const Problem& problem, const Job& job);

struct Option {
  int gpus = 0;
  double value = 0;
  int point = 0;
};

// The job's options on one type, sorted by GPUs, without those that need more GPUs and have no greater value. Empty if
// the job has no point on this type.
std::vector<Option> options_of(const Problem& problem, int job, int type);

// The indexes of the options on the upper concave envelope, from the first option on: along it the gain per GPU falls
// from step to step.
std::vector<int> envelope(const std::vector<Option>& options);

}  // namespace dl::policy::elastic
