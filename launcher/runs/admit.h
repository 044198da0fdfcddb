// SPDX-License-Identifier: Apache-2.0
// The way of a dlrun to its plan, in a job that may have other runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/record/event_log.h"
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
  plan::PlanInput whole;  // what the plan would be made of if the run were alone
  RunIdentity identity;
  int run = 1;                             // its number within the job
  std::string first_dir;                   // of run 1
  std::optional<record::Event> completed;  // it has completed already: so
  BookFile book;
};

// `plan` was made of *input for the whole allocation. Blocks while the GPUs that it needs belong to other runs, and
// while the job is being put back; `say` is told why. *input is left with what is free for this run. kBusy: another run
// has the checkpoint directory. kConflict: it was told to end before it could begin.
Result<Admission> admit(const Applicant& applicant, plan::LaunchPlan plan, plan::PlanInput* input,
                        const std::function<void(const std::string&)>& say);
// A plan in place of `now` without these nodes, of what other runs leave at this moment; *input becomes what it was
// made of. It is booked beside what the run has, until settle(). As plan::make_plan_without(); kBusy: the book is in
// use.
Result<plan::LaunchPlan> plan_without(const std::vector<std::string>& nodes, const plan::LaunchPlan& now,
                                      const Applicant& applicant, Admission* admission, plan::PlanInput* input);
// The run goes on with this plan alone, and gives back what else it has booked.
void settle(const plan::LaunchPlan& plan, const Applicant& applicant, Admission* admission);
// This run is over.
void leave(const Applicant& applicant, Admission* admission);

// An agent among the ancestors of this process: it belongs to a learner. Empty, or the learner's rank.
std::string surrounding_learner();

}  // namespace dl::runs
