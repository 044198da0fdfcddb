// SPDX-License-Identifier: Apache-2.0
// The way of a dlrun to its plan, in a job that may have other runs.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/runs/job_book.h"
#include "launcher/runs/run_identity.h"

namespace dl::runs {

struct Applicant {
  std::string number;    // of the job, as Slurm counts
  int start = 0;         // how often Slurm had put the job back
  ProcessId guard;       // the process by which this run lives
  bool own_dir = false;  // --job-dir was given: no other directory is chosen
};

struct Admission {
  plan::LaunchPlan plan;
  RunIdentity identity;
  int run = 1;                   // its number within the job
  std::string first_dir;         // of run 1
  std::optional<int> completed;  // it has completed already: the exit status it had then
  BookFile book;
};

// `plan` was made of *input for the whole allocation. Blocks while the GPUs that it needs belong to other runs, and
// while the job is being put back; `say` is told why. *input is left with what is free for this run. kBusy: another run
// has the checkpoint directory.
Result<Admission> admit(const Applicant& applicant, plan::LaunchPlan plan, plan::PlanInput* input,
                        const std::function<void(const std::string&)>& say);
// This run is over.
void leave(const Applicant& applicant, Admission* admission);

// An agent among the ancestors of this process: it belongs to a learner. Empty, or the learner's rank.
std::string surrounding_learner();

}  // namespace dl::runs
