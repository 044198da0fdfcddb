// SPDX-License-Identifier: Apache-2.0
// Makes the plan of a dlrun in a job that may have other runs, and enters it in the book (job_book.h).
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
  std::string number;    // SLURM_JOB_ID
  int start = 0;         // how often Slurm had requeued the job
  ProcessId guard;       // the run lives as long as this process
  bool own_dir = false;  // --job-dir was given: use that directory
};

struct Admission {
  plan::LaunchPlan plan;
  plan::PlanInput whole;  // the input of the plan if the run were alone
  RunIdentity identity;
  int run = 1;                             // its number within the job
  bool beside = false;                     // others were active when it got its number, which is above 1
  std::string first_dir;                   // of run 1
  std::optional<record::Event> completed;  // if set: it completed in an earlier start, with this event
  BookFile book;
};

// plan: what make_plan(*input) gave for the whole allocation. Blocks while other runs use the GPUs that it needs, and
// while the job is being stopped; tells `say` why. On success *input holds what is free for this run. kBusy: another
// run uses the checkpoint directory. kConflict: SIGTERM came, or the job was requeued, before the run could begin.
Result<Admission> admit(const Applicant& applicant, plan::LaunchPlan plan, plan::PlanInput* input,
                        const std::function<void(const std::string&)>& say);
// Replaces the plan `now` by one without these nodes, made from what other runs leave free now; *input becomes its
// input. Until settle(), the book holds the resources of both plans for this run. Errors as plan::make_plan_without();
// kConflict also if other runs use what it needs; kBusy: another run holds the lock of the book; kIo: the book cannot
// be written.
Result<plan::LaunchPlan> plan_without(const std::vector<std::string>& nodes, const plan::LaunchPlan& now,
                                      const Applicant& applicant, Admission* admission, plan::PlanInput* input);
// Ends the choice: the run uses `plan`, and its other entries in the book are released.
void settle(const plan::LaunchPlan& plan, const Applicant& applicant, Admission* admission);
// Removes this run from the book.
void leave(const Applicant& applicant, Admission* admission);

// The rank of the learner to which this process belongs, by an agent among its ancestors; empty if there is none.
std::string surrounding_learner();

}  // namespace dl::runs
