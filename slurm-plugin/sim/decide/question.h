// SPDX-License-Identifier: Apache-2.0
// One question of `dlsim decide` as JSON, and its answer; the format is in dlsim(1), "decide".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"
#include "slurm-plugin/policy/elastic/problem.h"

namespace dl::sim {

struct Question {
  policy::elastic::Problem problem;
  std::vector<std::string> types;  // by index
  std::vector<std::string> jobs;   // their ids
  bool drop = false;               // jobs that are not admitted are dropped; else they wait
};

// kInvalid with the path of the member that is wrong ("jobs[2].speeds.a100[0].gpus: ..."). An unknown member is
// refused, since a misspelt name would otherwise change the answer unnoticed.
Result<Question> read_question(std::string_view line);

// The answer, without the time that the optimiser took.
Json answer_of(const Question& question, const policy::elastic::Allocation& allocation);

}  // namespace dl::sim
