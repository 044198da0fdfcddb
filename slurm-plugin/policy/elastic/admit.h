// SPDX-License-Identifier: Apache-2.0
// Which jobs get GPUs at all, and of which type to begin with.
#pragma once

#include <vector>

#include "slurm-plugin/policy/elastic/limits.h"
#include "slurm-plugin/policy/elastic/problem.h"

namespace dl::policy::elastic {

// By job: the type of its GPUs, or kNothing. Running jobs come first, on the type that they have if their smallest size
// there fits, then those that wait, in order, each on the type where its smallest size is worth most for each GPU.
// `left`, one for each type, is without the smallest sizes afterwards.
std::vector<int> admit(const Problem& problem, std::vector<Limits>* left);

// The fewest GPUs of this type that the job can run with; 0: it cannot.
int fewest_gpus(const Job& job, int type);

}  // namespace dl::policy::elastic
