// SPDX-License-Identifier: Apache-2.0
// The ranks of the agents that one srun starts, by their place in its step: dlrun names them to agents of a job that
// has several allocations (env::kControlRanks), in each of which Slurm counts tasks from 0. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl {

// "2-3,7" for 2, 3, 7; the order stays: "7,2-3" for 7, 2, 3.
std::string format_rank_list(const std::vector<int>& ranks);
// The number at this place of such a list, counted from 0. kInvalid: not such a list, or it is shorter.
Result<int> rank_at(const std::string& list, int64_t place);

}  // namespace dl
