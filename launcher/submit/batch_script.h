// SPDX-License-Identifier: Apache-2.0
// Makes the batch script for a command line of dlrun --submit. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace dl::submit {

struct ScriptInput {
  // Options of sbatch in order, without "--"; an empty value means that the option has none ("requeue").
  std::vector<std::pair<std::string, std::string>> sbatch;
  std::vector<std::string> dlrun;                  // dlrun, and those of its options that have no --dl-* flag
  std::vector<std::string> command;                // what each learner runs
  std::string work_dir;                            // absolute
  std::string typed;                               // the user's command line, for a comment
  std::map<std::string, std::string> environment;  // of the submitting shell: shows which environment is active
};

// kInvalid for a value that cannot be in an "#SBATCH" line (with a line break).
Result<std::string> batch_script(const ScriptInput& input);

// A name for the job: "train" for "python3 -u dir/train.py --lr 1", "pkg.train" for "python3 -m pkg.train", "a.out" for
// "./a.out". Only letters, digits and "._-", at most 64 characters.
std::string job_name_of(const std::vector<std::string>& command);

}  // namespace dl::submit
