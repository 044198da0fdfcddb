// SPDX-License-Identifier: Apache-2.0
// dlctl logs JOB: prints the output of the learners from their log files; with -f also new output, over restarts and
// requeues.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>

#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/log_files.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{200};
constexpr std::chrono::seconds kAskSlurm{5};
constexpr std::chrono::seconds kAskQueue{2};

struct Options {
  std::string job, dir;
  int learner = -1;
  int attempt = 0;
  int lines = -1;
  bool follow = false;
  bool several = false;  // the job has several learners, whether or not all have a log yet
};

// The logs of one attempt that were asked for.
class Attempt {
 public:
  Attempt(const record::JobDir& dir, int number, const Options& options)
      : dir_(dir), number_(number), options_(&options) {}

  int number() const { return number_; }
  bool empty() const { return tails_.empty(); }

  // Opens logs that have appeared. `lines`: how many of their last lines are shown; < 0: all.
  Status open_new(int lines) {
    for (const int rank : list_learner_logs(dir_, number_)) {
      if (options_->learner >= 0 && rank != options_->learner) continue;
      if (tails_.count(rank) != 0) continue;
      DL_TRY_ASSIGN(LogTail tail, LogTail::open(dir_.root(), learner_log(number_, rank), lines));
      tails_.emplace(rank, std::move(tail));
    }
    return {};
  }

  // Prints new output. True if there was any.
  Result<bool> print_new() {
    bool any = false;
    for (auto& [rank, tail] : tails_) {
      for (;;) {
        std::vector<std::string> lines;
        DL_TRY_ASSIGN(const bool more, tail.read(&lines));
        for (const std::string& line : lines) print(rank, line);
        if (!more) break;
        any = true;
        if (options_->follow) break;  // so that other learners get their turn
      }
    }
    return any;
  }

  void print_rests() {
    for (auto& [rank, tail] : tails_) {
      const std::string rest = tail.take_rest();
      if (!rest.empty()) print(rank, rest);
    }
  }

 private:
  void print(int rank, const std::string& text) const {
    static const bool terminal = ::isatty(STDOUT_FILENO) != 0;
    const std::string line = terminal ? terminal_text(text) : text;
    // The output of a single learner is printed unchanged; with several, each line begins with the rank.
    if (options_->learner < 0 && (options_->several || tails_.size() > 1)) std::printf("[%d] ", rank);
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fputc('\n', stdout);
  }

  record::JobDir dir_;
  int number_;
  const Options* options_;
  std::map<int, LogTail> tails_;
};

// Tells when no more output will come: the newest state is final, or Slurm has ended the job.
class EndWatch {
 public:
  explicit EndWatch(Job job) : job_(std::move(job)) {}

  // Reads the record at most once a second, and asks Slurm once in kAskSlurm.
  bool ended() {
    const Clock::time_point now = Clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(1);
    if (!job_.local && now >= next_slurm_) {
      next_slurm_ = now + kAskSlurm;
      auto info = refresh(job_);
      if (info) {
        job_.slurm = *info;
      } else if (info.error().code == Errc::kNotFound) {
        job_.slurm.reset();
      }  // otherwise slurmctld is busy or restarting, and its last answer counts
    }
    return record::is_final(view_job(job_, !job_.slurm).shown.state);
  }

 private:
  Job job_;
  Clock::time_point next_{};
  Clock::time_point next_slurm_{Clock::now() + kAskSlurm};
};

Status follow(const Job& job, Attempt current, const Options& options) {
  EndWatch watch(job);
  // One more round after the job's end prints what was written between the last look and the end.
  bool last_round = false;
  for (;;) {
    DL_TRY(current.open_new(-1));
    DL_TRY_ASSIGN(const bool any, current.print_new());
    if (std::fflush(stdout) != 0) return errno_error("standard output", errno);
    if (any) continue;
    const std::vector<int> attempts = list_attempts(job.dir);
    if (options.attempt == 0 && !attempts.empty() && attempts.back() > current.number()) {
      current.print_rests();
      const auto next = std::upper_bound(attempts.begin(), attempts.end(), current.number());
      current = Attempt(job.dir, *next, options);
      std::fprintf(stderr, "-- attempt %d\n", current.number());
      last_round = false;
      continue;
    }
    if (last_round) break;
    last_round = watch.ended() || (options.attempt > 0 && !attempts.empty() && attempts.back() > current.number());
    if (!last_round) std::this_thread::sleep_for(kPoll);
  }
  current.print_rests();
  return {};
}

// Waits until a queued job has started, and prints what it waits for whenever that changes.
Result<Job> wait_for_start(Job job, const Options& options) {
  std::string said;
  while (job.slurm && !record::is_final(view_job(job, false).shown.state) && list_attempts(job.dir).empty()) {
    const ShownState shown = view_job(job, false).shown;
    const std::string why = std::string(record::state_name(shown.state)) +
                            (shown.reason.empty() ? "" : ", " + printable(shown.reason, 300));
    if (why != said)
      std::fprintf(stderr, "dlctl logs: job %s is %s; waiting for its learners\n", job.name().c_str(), why.c_str());
    said = why;
    std::this_thread::sleep_for(kAskQueue);
    auto found = find_run(options.job, options.dir);
    if (found)
      job = *std::move(found);
    else if (found.error().code == Errc::kNotFound)
      return std::move(found).error();
  }
  return job;
}

Status run(Options options) {
  DL_TRY_ASSIGN(Job job, find_run(options.job, options.dir));
  DL_TRY(act_as_owner(job));
  if (options.follow) {
    DL_TRY_ASSIGN(job, wait_for_start(std::move(job), options));
  }
  if (!job.has_dir()) {
    return Error{Errc::kNotFound,
                 "job " + job.name() + " has no job directory (yet): it was not started by dlrun, or give --dir"};
  }
  if (::access(job.dir.root().c_str(), R_OK | X_OK) != 0 && errno == EACCES)
    return Error{Errc::kDenied, "job directory " + printable(job.dir.root(), 300) +
                                    " is for its user alone; allowed: that user or root, or [launcher] job_dir_mode in "
                                    "dl.toml for others"};
  const std::vector<int> attempts = list_attempts(job.dir);
  const bool known = std::find(attempts.begin(), attempts.end(), options.attempt) != attempts.end();
  if (options.attempt > 0 && !known) {
    return Error{Errc::kNotFound, "job " + job.name() + " has no attempt " + std::to_string(options.attempt) +
                                      "; it has " +
                                      (attempts.empty() ? "none" : "1 to " + std::to_string(attempts.back()))};
  }
  if (attempts.empty() && !options.follow) {
    return Error{Errc::kNotFound, "job " + job.name() + " has no logs yet; wait for them with -f"};
  }
  options.several = view_job(job, false).plan.learners > 1;
  const int number = options.attempt > 0 ? options.attempt : attempts.empty() ? 0 : attempts.back();
  Attempt attempt(job.dir, number, options);
  DL_TRY(attempt.open_new(options.lines));
  if (options.follow) return follow(job, std::move(attempt), options);
  if (attempt.empty()) {
    return Error{Errc::kNotFound, options.learner >= 0 ? "learner " + std::to_string(options.learner) +
                                                             " has no log in attempt " + std::to_string(number)
                                                       : "attempt " + std::to_string(number) + " has no logs yet"};
  }
  const Result<bool> printed = attempt.print_new();
  if (!printed) return printed.error();
  attempt.print_rests();
  return {};
}

}  // namespace

Run add_logs(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("JOB", &options->job, "job id, local-..., or path of a job directory").required();
  line->flag("-f,--follow", &options->follow, "follow the logs until the job ends");
  line->option("--learner", &options->learner, "only the log of this rank").form("RANK").between(0, 99999);
  line->option("--attempt", &options->attempt, "only this attempt (default: the newest)")
      .form("N")
      .between(1, 1000000000);
  line->option("-n,--lines", &options->lines, "only the last N lines of each learner (default: all)")
      .form("N")
      .between(0, 1000000000);
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
