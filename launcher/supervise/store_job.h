// SPDX-License-Identifier: Apache-2.0
// The job without GPUs that stores a job's results where the time did not suffice at its end. dlrun submits it, as the
// user. It begins once the job has stopped, and does nothing if the job runs again, which then stores them itself.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "launcher/record/job_dir.h"
#include "launcher/slurm_cli/job_text.h"
#include "launcher/supervise/result_store.h"

namespace dl::supervise {

// What becomes of the job after this end.
enum class AfterEnd {
  kOver,
  kHeld,    // somebody will resume it, or not
  kQueued,  // its next attempt stores what this one has left
};
// Whether a store that ended so is handed to a job.
bool is_handed_over(const plan::LaunchPlan& plan, AfterEnd after, const StoreOutcome& outcome);

// "dl-store-12", "dl-store-12.2" of the job's second dlrun: `scancel --name` ends it.
std::string store_job_name(const std::string& job_id, int run);
// Options of sbatch. job: as scontrol shows the job whose results they are; name: of the new one.
std::vector<std::string> store_job_options(const slurm_cli::JobText& job, const std::string& name,
                                           const record::JobDir& dir);
// The batch script. When all is stored, it writes stored.json (dl-job-directory(5)), as after this attempt.
std::string store_job_script(const slurm_cli::JobText& job, const plan::LaunchPlan& plan, const record::JobDir& dir,
                             int attempt);

// The id of the job that stored.json says it was handed to; empty if there is none. text: of that file.
std::string handed_to(const std::string& text);

}  // namespace dl::supervise
