// SPDX-License-Identifier: Apache-2.0
// dlctl resume JOB: releases a paused job, and lets it start at once.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "launcher/ctl/find_job.h"
#include "launcher/ctl/start_delay.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct ResumeOptions {
  std::string job, dir;
};

bool is_held(const Job& job) {
  return job.slurm && job.slurm->state == "PENDING" && job.slurm->held;
}

Status release(const Job& job) {
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
  return {};
}

// A requeued job may start only seconds or minutes later, when Slurm next looks at its queue. If the begin time cannot
// be set, the job is released all the same.
void let_begin(const std::vector<Job>& released) {
  const int64_t now_s = std::time(nullptr);
  if (std::any_of(released.begin(), released.end(),
                  [&](const Job& job) { return starts_next_second(job.slurm->eligible_time, now_s); }))
    wait_for_next_second();
  for (const Job& job : released) {
    // Slurm looks at its queue at once when a begin time is set to now.
    if (const Status begun = slurm_cli::set_start_time(job.id, std::chrono::seconds(0)); !begun) {
      std::fprintf(stderr, "dlctl resume: job %s is released, but Slurm may let it wait: %s\n", job.id.c_str(),
                   begun.error().text.c_str());
    }
    std::printf("job %s may start again\n", job.id.c_str());
  }
}

// Of a job array, releases the elements that are held.
Status run(const ResumeOptions& options) {
  DL_TRY_ASSIGN(std::vector<Job> jobs, find_jobs(options.job, options.dir));
  if (jobs.size() > 1) {
    jobs.erase(std::remove_if(jobs.begin(), jobs.end(), [](const Job& job) { return !is_held(job); }), jobs.end());
    if (jobs.empty()) return Error{Errc::kConflict, "job " + options.job + " is not paused: no element is held"};
  }
  Status outcome;
  std::vector<Job> released;
  for (const Job& job : jobs) {
    Status done = release(job);
    if (done)
      released.push_back(job);
    else if (outcome)
      outcome = std::move(done);
  }
  let_begin(released);
  return outcome;
}

}  // namespace

Run add_resume(CommandLine* line) {
  auto options = std::make_shared<ResumeOptions>();
  line->argument("JOB", &options->job, "job id; 12 is all of a job array, 12_3 an element of it").required();
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
