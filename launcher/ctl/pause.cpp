// SPDX-License-Identifier: Apache-2.0
// dlctl pause JOB: has the learners save at an agreed train step, gives the GPUs back, and holds the job.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/control_client.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/slurm_cli/user_settings.h"

namespace dl::ctl {
namespace {

using Clock = std::chrono::steady_clock;

struct PauseOptions {
  std::string job, dir, reason;
  std::string timeout = "10m";
  bool no_wait = false;
  bool force = false;  // pause even if all progress is lost
};

Status signal_job(const std::string& id) {
  CommandOptions options;
  options.without = slurm_cli::user_settings();  // with a filter of the user's scancel would leave the job out
  DL_TRY_ASSIGN(const CommandResult result, run_command({"scancel", "--signal=USR2", id}, options));
  if (result.ok()) return {};
  return Error{Errc::kIo, "scancel --signal=USR2 " + id + ": " + printable(trim(result.err), 300)};
}

// Asks dlrun to pause over its control connection, or, where that does not work (another network, a firewall), by a
// file and a signal. If the job has several dlruns, one is asked, and it passes the request on to the others.
Status ask_to_pause(const Job& whole, const std::string& reason) {
  Job job = whole;
  for (const Job& run : runs_of(whole)) {
    if (::access(run.dir.control().c_str(), F_OK) != 0) continue;
    job = run;
    break;
  }
  if (!job.has_dir()) {
    return Error{Errc::kNotFound, "job " + job.id +
                                      " has no job directory: either dlrun did not start the job, or the directory is "
                                      "elsewhere; name it with --dir DIR"};
  }
  protocol::Pause question;
  question.reason = reason;
  auto answer = ask_dlrun(job, question, std::chrono::seconds(5));
  if (answer) {
    const auto* reply = std::get_if<protocol::Reply>(&*answer);
    if (reply == nullptr)
      return Error{Errc::kInternal,
                   "dlrun gave an answer to another question; dlctl and dlrun must be of one version of slurm-dl"};
    if (!reply->ok) return Error{Errc::kBusy, printable(reply->text, 300)};
    return {};
  }
  if (answer.error().code == Errc::kDenied) return std::move(answer).error();
  if (job.local) {
    if (answer.error().code != Errc::kNotFound) return std::move(answer).error();
    return Error{Errc::kConflict, "job " + job.id + " does not run; allowed: a job that runs or waits"};
  }
  DL_TRY(record::write_request(job.dir.request(), {"pause", reason}));
  return signal_job(job.id);
}

bool waits(const Job& job) {
  return job.slurm && job.slurm->state == "PENDING";
}

// Whether the job is paused, or has ended in another way.
struct Rest {
  bool reached = false;
  ShownState shown;
  JobView view;
};
Rest look(const Job& job) {
  Job fresh = job;
  if (!job.local) {
    auto info = refresh(job);
    if (info) {
      fresh.slurm = std::move(info).value();
    } else if (info.error().code == Errc::kNotFound) {
      fresh.slurm.reset();
    }  // otherwise slurmctld is busy or restarting, and its last answer counts
  }
  Rest rest;
  std::vector<JobView> views;
  std::vector<RunWord> words;
  for (const Job& run : runs_of(fresh)) {
    views.push_back(view_job(run, job.local));
    const std::vector<record::Event>& history = views.back().history;
    words.push_back({views.back().shown, history.empty() ? std::nullopt : std::optional(history.back().state)});
  }
  rest.view = std::move(views[telling_run(words, waits(fresh))]);
  rest.shown = rest.view.shown;
  rest.reached = record::is_final(rest.shown.state);
  // The nodes are free only when Slurm has the job in the queue again, held.
  if (fresh.slurm && rest.shown.state == record::JobState::kHalted && fresh.slurm->state != "PENDING")
    rest.reached = false;
  return rest;
}

Status wait_until_paused(const Job& job, std::chrono::seconds timeout) {
  const Clock::time_point start = Clock::now();
  const bool show = ::isatty(STDERR_FILENO) != 0;
  bool shown = false;
  for (;;) {
    const Rest rest = look(job);
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start);
    if (rest.reached || waited >= timeout) {
      if (shown) std::fprintf(stderr, "\r\033[K");
      if (!rest.reached) {
        return Error{Errc::kTimeout, "job " + job.id + " is still " + record::state_name(rest.shown.state) + " after " +
                                         format_duration(timeout) + "; the pause goes on without dlctl"};
      }
      if (rest.shown.state != record::JobState::kHalted) {
        return Error{Errc::kIo, "job " + job.id + " is not paused but " + record::state_name(rest.shown.state) +
                                    (rest.shown.reason.empty() ? "" : ": " + printable(rest.shown.reason, 300))};
      }
      // The reason that dlrun recorded: "paused: saved at train step 40", or why nothing was saved.
      const std::string how = rest.shown.reason.empty() ? "paused" : printable(rest.shown.reason, 300);
      std::printf("job %s: %s; %s\n", job.id.c_str(), how.c_str(),
                  job.local ? "the same dlrun line resumes it" : ("resume it: dlctl resume " + job.id).c_str());
      return {};
    }
    if (show && waited.count() >= 2) {
      shown = true;
      std::fprintf(stderr, "\r\033[Kpausing job %s: %s, train step %s, %llds", job.id.c_str(),
                   record::state_name(rest.shown.state),
                   rest.view.step < 0 ? "-" : std::to_string(rest.view.step).c_str(),
                   static_cast<long long>(waited.count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

// The id to give to dlctl resume. Elements of an array that wait share one record, and are resumed as the array.
std::string to_resume(const Job& job) {
  return job.id.find('[') == std::string::npos ? job.id : slurm_cli::array_of(job.id);
}

// Refuses a job that has no checkpoints, or whose learners have not used the checkpoint library: it would begin anew
// when it is resumed, unless its program saves by itself on SIGTERM.
Status check_saves(const Job& whole) {
  Job job = whole;
  for (const Job& run : runs_of(whole)) {
    const JobView view = view_job(run, true);
    if (view.plan.learners == 0 || record::is_final(view.shown.state)) continue;
    job.id = run.name();
    if (view.plan.checkpoint.empty())
      return Error{Errc::kConflict,
                   "job " + job.id +
                       " has no checkpoint directory (--dl-checkpoint), so a pause would throw away what it has done; "
                       "allowed: --force, where its program saves by itself on SIGTERM, or where that does not matter"};
    // A saved train step counts, too. Where dlrun does not answer, nobody knows whether there is one.
    if (view.alive && view.step < 0 && view.shown.state == record::JobState::kProcessing)
      return Error{Errc::kConflict,
                   "the program of job " + job.id +
                       " has not begun a train step with the checkpoint library yet, so a pause would throw away what "
                       "it has done; allowed: later, once dlctl status shows a train step, or --force, where it saves "
                       "by itself on SIGTERM, or where that does not matter"};
  }
  return {};
}

// Holds a job that waits, and asks one that runs to pause. True if the pause has to be waited for.
Result<bool> tell(const Job& job, const PauseOptions& options) {
  DL_TRY(check_owner(job));
  if (!job.local) {
    if (!job.slurm) return Error{Errc::kNotFound, "job " + job.id + " is not known to Slurm any more"};
    const std::string& state = job.slurm->state;
    if (state == "PENDING") {
      if (job.slurm->held) {
        std::printf("job %s is held already; resume it: dlctl resume %s\n", job.id.c_str(), to_resume(job).c_str());
        return false;
      }
      DL_TRY(slurm_cli::hold(job.id));
      std::printf("job %s had not started and is held now; resume it: dlctl resume %s\n", job.id.c_str(),
                  to_resume(job).c_str());
      return false;
    }
    if (state == "SUSPENDED")
      return Error{Errc::kConflict, "job " + job.id +
                                        " cannot be paused: it is SUSPENDED, so it cannot save; let it go on first: "
                                        "scontrol resume " +
                                        job.id + " (as an operator), or wait until Slurm does"};
    if (state != "RUNNING" && state != "COMPLETING" && state != "CONFIGURING") {
      return Error{Errc::kConflict, "job " + job.id + " cannot be paused: it is " + state};
    }
  }
  if (!options.force) DL_TRY(check_saves(job));
  DL_TRY(ask_to_pause(job, options.reason));
  if (options.no_wait) {
    std::printf("job %s is told to pause\n", job.id.c_str());
    return false;
  }
  return true;
}

bool runs(const Job& job) {
  return job.slurm && (job.slurm->state == "RUNNING" || job.slurm->state == "COMPLETING" ||
                       job.slurm->state == "CONFIGURING" || job.slurm->state == "SUSPENDED");
}

// Pauses all elements of an array. The waiting ones are held first; otherwise one of them would start on the GPUs that
// another gives back.
Status pause_array(const PauseOptions& options, std::vector<Job> jobs, std::chrono::seconds timeout) {
  Status outcome;
  std::vector<Job> told;
  const auto tell_those = [&](bool (*which)(const Job&)) {
    bool any = false;
    for (const Job& job : jobs) {
      if (!which(job)) continue;
      any = true;
      Result<bool> done = tell(job, options);
      if (done && *done) told.push_back(job);
      if (!done && outcome) outcome = std::move(done).error();
    }
    return any;
  };
  bool any = tell_those(waits);
  // Some elements may have started before they could be held.
  if (any) {
    DL_TRY_ASSIGN(jobs, find_jobs(options.job, options.dir));
  }
  any = tell_those(runs) || any;
  if (!any) return Error{Errc::kConflict, "job " + options.job + " cannot be paused: all its elements have ended"};
  for (const Job& job : told)
    if (Status paused = wait_until_paused(job, timeout); !paused && outcome) outcome = std::move(paused);
  return outcome;
}

Status run(const PauseOptions& options) {
  auto timeout = parse_duration(options.timeout);
  if (!timeout) return std::move(timeout).error().with_context("--timeout");
  DL_TRY_ASSIGN(std::vector<Job> jobs, find_jobs(options.job, options.dir));
  DL_TRY(act_as_owner(jobs.front()));  // all elements of an array belong to one user
  if (jobs.size() > 1) return pause_array(options, std::move(jobs), *timeout);
  DL_TRY_ASSIGN(const bool told, tell(jobs.front(), options));
  return told ? wait_until_paused(jobs.front(), *timeout) : Status();
}

}  // namespace

Run add_pause(CommandLine* line) {
  auto options = std::make_shared<PauseOptions>();
  line->argument("JOB", &options->job, "job id, local-..., or path of a job directory").required();
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  line->option("--reason", &options->reason, "kept in the job's history").form("TEXT");
  line->option("--timeout", &options->timeout, "how long to wait until it is paused").form("TIME").shows_default();
  line->flag("--force", &options->force, "also a job that cannot save, which begins anew");
  line->flag("--no-wait", &options->no_wait, "return as soon as the job is told");
  return [options] {
    if (options->reason.empty()) options->reason = "asked by dlctl pause";
    return run(*options);
  };
}

}  // namespace dl::ctl
