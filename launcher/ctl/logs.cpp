// SPDX-License-Identifier: Apache-2.0
// dlctl logs JOB: prints the output of the learners from their logs, in order of time; with -f also new output, over
// restarts and requeues.
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/log_choice.h"
#include "launcher/ctl/log_files.h"
#include "launcher/ctl/log_view.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{200};
constexpr std::chrono::seconds kAskSlurm{5};
constexpr std::chrono::seconds kAskQueue{2};

struct LogsOptions {
  std::string job, dir;
  std::optional<std::string> ranks, since, until, grep;
  int attempt = 0;
  int lines = -1;
  bool follow = false, no_fold = false;
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
    shown_ = view_job(job_, !job_.slurm).shown;
    return record::is_final(shown_.state);
  }
  // A paused job has more to say once it is resumed.
  void say_if_paused() const {
    if (job_.local || shown_.state != record::JobState::kHalted) return;
    const std::string why = shown_.reason.empty() ? "" : fmt::format(" ({})", printable(shown_.reason, 300));
    std::fprintf(stderr, "dlctl logs: job %s is HALTED%s; follow it again after dlctl resume %s\n", job_.name().c_str(),
                 why.c_str(), job_.id.c_str());
  }

 private:
  Job job_;
  ShownState shown_;
  Clock::time_point next_{};
  Clock::time_point next_slurm_{Clock::now() + kAskSlurm};
};

// Waits until a queued job has started, and prints what it waits for whenever that changes.
Result<Job> wait_for_start(Job job, const LogsOptions& options) {
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

// What is shown of the job, and of what the logs are made.
struct Shown {
  LogChoice choice;
  LogPrinter printer;
  std::map<int, int64_t> begins;  // of attempts, in milliseconds since the epoch

  std::unique_ptr<AttemptLogs> attempt(const Job& job, int number) {
    const auto begin = begins.find(number);
    return std::make_unique<AttemptLogs>(job.dir, number, begin == begins.end() ? 0 : begin->second, &choice, &printer);
  }
};

Status follow(const Job& job, std::unique_ptr<AttemptLogs> current, const LogsOptions& options, Shown* shown) {
  EndWatch watch(job);
  // One more round after the job's end prints what was written between the last look and the end.
  bool last_round = false;
  for (;;) {
    current->open_new();
    DL_TRY_ASSIGN(const bool any, current->print_new());
    if (any) continue;
    const std::vector<int> attempts = list_attempts(job.dir);
    if (options.attempt == 0 && !attempts.empty() && attempts.back() > current->number()) {
      current->finish();
      const auto next = std::upper_bound(attempts.begin(), attempts.end(), current->number());
      current = shown->attempt(job, *next);
      std::fprintf(stderr, "-- attempt %d\n", current->number());
      last_round = false;
      continue;
    }
    if (last_round) break;
    last_round = watch.ended() || (options.attempt > 0 && !attempts.empty() && attempts.back() > current->number());
    if (!last_round) std::this_thread::sleep_for(kPoll);
  }
  current->finish();
  watch.say_if_paused();
  return {};
}

Result<LogChoice> choice_of(const LogsOptions& options) {
  LogChoice choice;
  if (options.ranks) {
    auto ranks = Ranks::parse(*options.ranks);
    if (!ranks) return std::move(ranks).error().with_context("--learner");
    choice.ranks = *std::move(ranks);
  }
  const int64_t now = now_ms();
  if (options.since) {
    auto since = parse_moment(*options.since, now);
    if (!since) return std::move(since).error().with_context("--since");
    choice.since_ms = *since;
  }
  if (options.until) {
    auto until = parse_moment(*options.until, now);
    if (!until) return std::move(until).error().with_context("--until");
    choice.until_ms = *until;
  }
  if (choice.since_ms && choice.until_ms && *choice.since_ms >= *choice.until_ms)
    return Error{Errc::kInvalid, "--until '" + options.until.value_or("") + "' is not after --since '" +
                                     options.since.value_or("") + "'; allowed: a later time"};
  if (options.grep) {
    auto grep = Expression::compile(*options.grep);
    if (!grep) return std::move(grep).error().with_context("--grep");
    choice.grep = *std::move(grep);
  }
  choice.last_lines = options.lines;
  choice.fold = !options.no_fold;
  return choice;
}

Status check_readable(const Job& job) {
  if (!job.has_dir()) {
    const std::string script =
        job.slurm && job.slurm->batch && !job.slurm->std_out.empty() && job.slurm->std_out != "/dev/null"
            ? "; what its batch script writes is in " + printable(job.slurm->std_out, 300)
            : "";
    return Error{Errc::kNotFound, "job " + job.name() +
                                      " has no job directory (yet): either dlrun did not start the job, or the "
                                      "directory is elsewhere; name it with --dir DIR" +
                                      script};
  }
  if (::access(job.dir.root().c_str(), R_OK | X_OK) != 0 && errno == EACCES)
    return Error{Errc::kDenied, "job directory " + printable(job.dir.root(), 300) +
                                    " is for its user alone; allowed: that user or root, or [launcher] job_dir_mode in "
                                    "dl.toml for others"};
  return {};
}

// The numbers of the attempts that are shown, ascending; empty only with --follow: none has begun yet.
Result<std::vector<int>> choose_attempts(const Job& job, const LogsOptions& options, const Shown& shown) {
  const std::vector<int> attempts = list_attempts(job.dir);
  const bool known = std::find(attempts.begin(), attempts.end(), options.attempt) != attempts.end();
  if (options.attempt > 0 && !known) {
    return Error{Errc::kNotFound, "job " + job.name() + " has no attempt " + std::to_string(options.attempt) +
                                      "; it has " +
                                      (attempts.empty() ? "none" : "1 to " + std::to_string(attempts.back()))};
  }
  if (options.attempt > 0) return std::vector<int>{options.attempt};
  if (attempts.empty() && !options.follow)
    return Error{Errc::kNotFound, "job " + job.name() + " has no logs yet; wait for them with -f"};
  if (attempts.empty()) return attempts;
  if (!shown.choice.since_ms && !shown.choice.until_ms) return std::vector<int>{attempts.back()};
  std::vector<int> chosen = attempts_between(attempts, shown.begins, shown.choice.since_ms, shown.choice.until_ms);
  if (chosen.empty())
    return Error{Errc::kNotFound,
                 "job " + job.name() + " had no attempt yet at the time of --until; allowed: a later time"};
  return chosen;
}

Status print_ended(AttemptLogs* attempt, const Shown& shown) {
  if (attempt->empty()) {
    const auto single = shown.choice.ranks.single();
    const std::string number = std::to_string(attempt->number());
    return Error{Errc::kNotFound, single ? "learner " + std::to_string(*single) + " has no log in attempt " + number
                                  : shown.choice.ranks.all() ? "attempt " + number + " has no logs yet"
                                                             : "attempt " + number + " has no logs of these learners"};
  }
  DL_TRY_ASSIGN([[maybe_unused]] const bool any, attempt->print_new());
  attempt->finish();
  return {};
}

// A job may have more learners than a process may have open files by default.
void raise_open_files() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Status run(LogsOptions options) {
  DL_TRY_ASSIGN(LogChoice choice, choice_of(options));
  DL_TRY_ASSIGN(Job job, find_run(options.job, options.dir));
  DL_TRY(act_as_owner(job));
  if (options.follow) {
    DL_TRY_ASSIGN(job, wait_for_start(std::move(job), options));
  }
  DL_TRY(check_readable(job));
  raise_open_files();
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const char* no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): one thread
  Shown shown{std::move(choice), LogPrinter(terminal, terminal && (no_color == nullptr || *no_color == '\0')), {}};
  const JobView view = view_job(job, false);
  shown.choice.several = view.plan.learners > 1;
  for (const record::Event& event : view.history) shown.begins.emplace(event.attempt, event.time_ms);
  DL_TRY_ASSIGN(const std::vector<int> attempts, choose_attempts(job, options, shown));
  if (attempts.empty()) return follow(job, shown.attempt(job, 0), options, &shown);
  bool estimated = false;
  for (const int number : attempts) {
    if (attempts.size() > 1) std::fprintf(stderr, "-- attempt %d\n", number);
    auto attempt = shown.attempt(job, number);
    DL_TRY(attempt->open());
    if (attempt->estimated() && (options.since || options.until) && !std::exchange(estimated, true))
      std::fprintf(stderr, "dlctl logs: the times of attempt %d were not recorded; they are estimated\n", number);
    if (options.follow && number == attempts.back())
      DL_TRY(follow(job, std::move(attempt), options, &shown));
    else if (!attempt->empty() || attempts.size() == 1)
      DL_TRY(print_ended(attempt.get(), shown));
  }
  if (shown.choice.grep && shown.choice.grep->given_up() > 0)
    std::fprintf(stderr, "dlctl logs: to match %lld lines with --grep would have taken too long; they are left out\n",
                 static_cast<long long>(shown.choice.grep->given_up()));
  return {};
}

}  // namespace

Run add_logs(CommandLine* line) {
  auto options = std::make_shared<LogsOptions>();
  line->argument("JOB", &options->job, "job id, local-..., or path of a job directory").required();
  line->flag("-f,--follow", &options->follow, "follow the logs until the job ends").excludes("--until");
  line->option("--rank,--learner", &options->ranks, "only the logs of these ranks, such as 3 or 0-3,8").form("RANKS");
  line->option("--attempt", &options->attempt, "only this attempt (default: the newest)")
      .form("N")
      .between(1, 1000000000);
  line->option("--since", &options->since, "from then: how long ago (10m), 14:05, \"2026-11-25 14:05\", @SECONDS")
      .form("TIME");
  line->option("--until", &options->until, "up to then").form("TIME");
  line->option("--grep", &options->grep, "only lines that this regular expression matches").form("RE");
  line->option("-n,--tail,--lines", &options->lines, "only the last N lines of each learner (default: all)")
      .form("N")
      .between(0, 1000000000);
  line->flag("--no-fold", &options->no_fold, "show lines that several learners wrote alike once for each");
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
