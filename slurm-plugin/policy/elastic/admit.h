// SPDX-License-Identifier: Apache-2.0
// Decides which jobs get GPUs at all, and of which type to begin with.
#pragma once

#include <vector>

#include "slurm-plugin/policy/elastic/limits.h"
#include "slurm-plugin/policy/elastic/problem.h"

namespace dl::policy::elastic {

// By job: the type of GPU that it gets, or kNothing if it is not admitted. Running jobs come first, on their present
// type if their smallest size fits there; then waiting jobs, in order. Any other job gets the type on which its
// smallest size is worth most per GPU. Jobs that may wait (value.h) get a type, too, and need nothing. `left`, one for
// each type: the smallest sizes of the admitted jobs are subtracted.
std::vector<int> admit(const Problem& problem, std::vector<Limits>* left);

// The fewest GPUs of this type that the job can run with; 0: it cannot.
int fewest_gpus(const Job& job, int type);

}  // namespace dl::policy::elastic
