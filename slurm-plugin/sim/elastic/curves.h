// SPDX-License-Identifier: Apache-2.0
// Reads categories of jobs whose speeds were measured, in place of the made-up ones:
//
//     {"jobs": [{"name": "digits", "part": 1, "batch": 60, "speeds": [{"gpus": 1, "batch": 60, "samples_s": 950.5},
//     ...]}]}
//
// "batch" is the user's, "asked" the GPUs that he asks for (missing: drawn, as for other jobs); every batch in "speeds"
// keeps accuracy. A number of GPUs without any speed cannot be used, nor can one without a speed at the user's batch
// where the batch is fixed.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "slurm-plugin/sim/elastic/workload.h"

namespace dl::sim {

// The error kInvalid names the place in the text, and what is allowed there.
Result<std::vector<Category>> read_curves(std::string_view text);

}  // namespace dl::sim
