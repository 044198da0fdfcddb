// SPDX-License-Identifier: Apache-2.0
// The batch script that a command line of dlrun stands for. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace dl::submit {

struct ScriptInput {
  // Options of sbatch in order, without "--"; an empty value: none ("requeue").
  std::vector<std::pair<std::string, std::string>> sbatch;
  std::vector<std::string> dlrun;                  // dlrun and those of its options that no flag of the job carries
  std::vector<std::string> command;                // what each learner runs
  std::string work_dir;                            // absolute
  std::string typed;                               // the command line that this stands for; for people
  std::map<std::string, std::string> environment;  // of the submitting shell: which environment is active there
};

// kInvalid: a value that no "#SBATCH" line can carry (a line break).
Result<std::string> batch_script(const ScriptInput& input);

// "train" for "python3 -u dir/train.py --lr 1", "pkg.train" for "python3 -m pkg.train", "a.out" for "./a.out": letters,
// digits and "._-" alone, at most 64.
std::string job_name_of(const std::vector<std::string>& command);

}  // namespace dl::submit
