// SPDX-License-Identifier: Apache-2.0
// dlctl resume JOB: releases a paused job, and lets it start without Slurm's delay of two minutes.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "launcher/ctl/find_job.h"
#include "launcher/ctl/start_delay.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct Options {
  std::string job, dir;
};

bool is_held(const Job& job) {
  return job.slurm && job.slurm->state == "PENDING" && job.slurm->held;
}

Status resume(const Job& job) {
  if (job.local) {
    return Error{
        Errc::kConflict,
        "job " + job.id + " ran without Slurm: start the same dlrun line again, it goes on from its checkpoint"};
  }
  if (!job.slurm) {
    return Error{Errc::kNotFound,
                 "job " + job.id + " is not known to Slurm any more: submit it again, it goes on from its checkpoint"};
  }
  DL_TRY(check_owner(job));
  if (!is_held(job)) {
    return Error{Errc::kConflict, "job " + job.id + " is not paused: it is " + job.slurm->state +
                                      (job.slurm->state == "PENDING" ? ", not held" : "")};
  }
  if (Status released = slurm_cli::release(job.id); !released) {
    // Only Slurm knows who is an administrator, so it is asked to release the job, and its refusal is explained.
    if (job.slurm->reason == "JobHeldAdmin") {
      return Error{Errc::kDenied, "job " + job.id + " is held by an administrator, who alone can release it (" +
                                      released.error().text + ")"};
    }
    return released;
  }
  // A requeued job may start only two minutes later. If the begin time cannot be set, the job is released all the same.
  if (const auto delay = start_delay(job.slurm->eligible_time, std::time(nullptr))) {
    const Status begun = slurm_cli::set_start_time(job.id, *delay);
    if (!begun) {
      std::fprintf(stderr, "dlctl resume: job %s is released, but Slurm may let it wait: %s\n", job.id.c_str(),
                   begun.error().text.c_str());
    }
  }
  std::printf("job %s may start again\n", job.id.c_str());
  return {};
}

// Of a job array, releases the elements that are held.
Status run(const Options& options) {
  DL_TRY_ASSIGN(std::vector<Job> jobs, find_jobs(options.job, options.dir));
  if (jobs.size() == 1) return resume(jobs.front());
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(), [](const Job& job) { return !is_held(job); }), jobs.end());
  if (jobs.empty()) return Error{Errc::kConflict, "job " + options.job + " is not paused: no element is held"};
  Status outcome;
  for (const Job& job : jobs)
    if (Status resumed = resume(job); !resumed && outcome) outcome = std::move(resumed);
  return outcome;
}

}  // namespace

Run add_resume(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("JOB", &options->job, "job id; 12 is all of a job array, 12_3 an element of it").required();
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
