// SPDX-License-Identifier: Apache-2.0
// What a job is worth at each of its sizes, and the sizes that can be worth choosing.
#pragma once

#include <vector>

#include "slurm-plugin/policy/elastic/problem.h"

namespace dl::policy::elastic {

// weight x speed / speed at the job's smallest size: its speed-up. At any other point than the present one of a running
// job also x (age - restarts x restart_s) / (age + restart_s), not below 0, as Pollux has it (OSDI 2021, section 4.2):
// who has run for a short time, or has been moved often, is moved last; and x (1 - least_gain).
double value_of(const Problem& problem, int job, int point);

// What changing costs, as the factor above; 1 for a job that waits.
double factor_of_change(const Problem& problem, const Job& job);

struct Option {
  int gpus = 0;
  double value = 0;
  int point = 0;
};

// Of one type, by rising GPUs, and the value rises with them: no option that needs more GPUs for nothing more. Empty if
// the job has no point on this type.
std::vector<Option> options_of(const Problem& problem, int job, int type);

// The indexes of those options that lie on the least concave line above all, from the first one on: with these the gain
// for each further GPU falls.
std::vector<int> envelope(const std::vector<Option>& options);

}  // namespace dl::policy::elastic
