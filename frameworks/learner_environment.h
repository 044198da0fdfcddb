// SPDX-License-Identifier: Apache-2.0
// The one place where a learner's environment is composed. `dlrun --dry-run`, dl-agent and, for plain srun, the SPANK
// plugin call it, so the printed environment and those of dlrun's and srun's learners are the same. Pure.
//
// The order. A later step leaves variables alone that are set already, unless it is said to replace them:
//   1. what the learner inherits, without the variables by which dlrun and its agents find each other
//   2. the family "dl", which tells the learner who it is: replaces
//   3. the variables of the framework and its version in the catalogue, with placeholders filled (placeholders.h); of
//      these, the ones that differ between learners replace
//   4. the framework's families; of these, the variables that tell the learner who it is replace (families.h)
//   5. PYTHONPATH: the folder of slurm-dl's Python package at its end
//   6. PYTHONUNBUFFERED=1 if the learner's output goes through a pipe to its agent: otherwise Python would keep it for
//      minutes
//   7. what only dlrun and the agent know of this run (the checkpoint directory made absolute, the lease, PMIx, the
//      progress page, the file of metrics): replaces
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "frameworks/families.h"

namespace dl {

// The input that is the same for all learners of a job. All pointers are borrowed, and only used during the call.
struct LearnerRecipe {
  const Environment* version = nullptr;                // step 3; may be nullptr
  const std::vector<std::string>* families = nullptr;  // step 4, without "dl"; may be nullptr
  std::string python_folder;                           // step 5; empty: nothing is added
  bool piped = false;                                  // step 6
  const Environment* known = nullptr;                  // step 7; may be nullptr
};

// The folder into which `make install` puts the Python package.
std::string installed_python_folder();

// Step 1: removes the variables by which dlrun and its agents find each other.
void drop_launcher_variables(Environment* inherited);

// Steps 2 to 7 for all learners of a job at once; *environment was constructed with what they inherit (step 1).
// kNotFound for an unknown family.
Status compose(const LearnerRecipe& recipe, JobEnvironment* environment);
// All steps for one learner; at first *environment holds what it inherits. On an error it is as it was.
Status compose(const LearnerRecipe& recipe, const LearnerContext& context, Environment* environment);

}  // namespace dl
