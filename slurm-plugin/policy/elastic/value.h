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

// What a job is worth at a point. A speed-up is speed / speed at its smallest size, within these bounds.
//
// kSpeedUp: weight x speed-up; for a running job at any other point than its present one multiplied by (age - restarts
// x restart_s) / (age + restart_s), not below 0, as in Pollux (OSDI 2021, section 4.2), so that young and often changed
// jobs are changed last; and by (1 - least_gain).
//
// kCompletion: weight x (1 + waited / (kNearestEndS + left)) / (time until it would end):
//
//     time = kNearestEndS + left / speed-up + (at another point than its present one: restart_s)
//
// A change also has to gain more than least_gain. What a job that waits is worth grows with the time, so no job waits
// for ever. Why these numbers: policy/elastic/README.md.
double value_of(const Problem& problem, int job, int point);

// For kCompletion. No end counts as nearer than this: a job that ends in ten seconds is not worth all GPUs, which would
// then idle until the next decision; and no job gains by saying that it has little left.
constexpr double kNearestEndS = 300;
// What a job counts as having left if that is not known.
constexpr double kUnknownLeftS = 1800;

// Whether waiting is one of the choices for this job, like a size: with kCompletion, if the job does not run. Otherwise
// it was decided before whether the job waits.
bool may_wait(const Problem& problem, const Job& job);

// The factor of kSpeedUp by which a change multiplies a running job's value, as said above; 1 for a job that waits.
double factor_of_change(const Problem& problem, const Job& job);

struct Option {
  int gpus = 0;
  double value = 0;
  int point = 0;
};

// The job's options on one type, sorted by GPUs, without those that need more GPUs and have no greater value. Empty if
// the job has no point on this type. That of a job that may wait begins with no GPUs, worth 0, and kNothing as point.
std::vector<Option> options_of(const Problem& problem, int job, int type);

// The indexes of the options on the upper concave envelope, from the first option on: along it the gain per GPU falls
// from step to step.
std::vector<int> envelope(const std::vector<Option>& options);

}  // namespace dl::policy::elastic
