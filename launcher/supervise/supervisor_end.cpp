// SPDX-License-Identifier: Apache-2.0
// What comes after an attempt: restart, put back, hold, or the end of the run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "launcher/agent/descendants.h"
#include "launcher/agent/progress_file.h"
#include "launcher/common/child_process.h"
#include "launcher/common/env_names.h"
#include "launcher/common/hostlist.h"
#include "launcher/common/parse.h"
#include "launcher/supervise/exit_codes.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

using record::JobState;

constexpr int64_t kSettleLimitMs = 20000;  // for the last comment to reach slurmctld
constexpr int64_t kSettleCancelledMs = 1000;
constexpr size_t kShownLines = 10;               // of the log of the learner that failed first
constexpr std::string_view kPlainCode = "C201";  // a crash: the class says no more than the exit code

}  // namespace

bool Supervisor::can_requeue() const {
  return plan_.under_slurm && job_ && job_->batch && job_->requeue;
}

AttemptEnd Supervisor::attempt_end() const {
  AttemptEnd end;
  end.failure = first_cause(failures_);
  if (end.failure) end.failure_class = classify(*end.failure, site_.failures);
  if (stop_) end.stop = stop_->cause;
  end.saved_step = newest_saved_step();
  end.all_finished = std::all_of(learners_.begin(), learners_.end(), [](const Learner& l) { return l.exit == 0; }) &&
                     failures_.empty() && !(stop_ && stop_->killing);
  bool nobody_failed = std::all_of(learners_.begin(), learners_.end(),
                                   [](const Learner& l) { return l.exit == 0 || l.exit == kExitSaved; });
  bool anybody_saved =
      std::any_of(learners_.begin(), learners_.end(), [](const Learner& l) { return l.exit == kExitSaved; });
  // Once the agreed train step is committed, a learner that stumbles on its way out (its peers are gone) does not
  // matter.
  bool committed = stop_ && anybody_saved && agreement_.step() && end.saved_step >= *agreement_.step();
  if (committed) end.failure.reset();
  end.all_saved = stop_ && ((nobody_failed && anybody_saved) || committed);
  if (stop_) end.not_saved_reason = stop_->not_saved_reason;
  return end;
}

void Supervisor::end_attempt() {
  std::optional<Failure> cause = first_cause(failures_);
  bool by_sigterm = cause && cause->kind == Failure::Kind::kSignal && cause->signal == SIGTERM;
  bool ask = plan_.under_slurm && !(stop_ && job_) && (!job_ || notice_open_ || by_sigterm);
  if (!ask) return decide_and_sweep();
  // Whether Slurm may put the job back is not known yet; or a SIGTERM of Slurm's (some set-ups send it to every process
  // of a step) ended the learners before its notice was looked up. Ask now what it was.
  auto found = std::make_shared<Result<slurm_cli::JobInfo>>(Error{});
  worker_->post([found, id = plan_.job_id] { *found = slurm_cli::show_job(id); },
                [this, found, by_sigterm] {
                  if (*found) job_ = std::move(**found);
                  NoticeReading reading = read_notice(notice_input(SIGTERM));
                  bool by_slurm = reading.kind != NoticeReading::Kind::kStop || reading.cause != StopCause::kInterrupt;
                  if (job_ && by_sigterm && !stop_ && by_slurm) {
                    stop_ = Stop{};
                    stop_->cause = reading.cause;
                    stop_->not_saved_reason = "not saved: Slurm's SIGTERM ended the learners";
                  }
                  decide_and_sweep();
                });
}

void Supervisor::decide_and_sweep() {
  AttemptEnd end = attempt_end();
  RestartLimits limits;
  limits.restarts_done = restarts_done_;
  limits.restarts_max = plan_.restarts;
  limits.loop_guard = site_.loop_guard;
  limits.without_progress = attempts_without_progress(journal_->events());
  limits.measurable = plan_.checkpoint.has_value() || newest_saved_step() >= 0;
  limits.can_requeue = can_requeue();
  limits.node_lost = !lost_nodes_.empty();
  limits.rest_suffices = limits.node_lost && plan_without_lost();
  if (end.failure) {
    auto done = class_restarts_.find(end.failure_class.name);
    limits.class_restarts = done != class_restarts_.end() ? done->second : 0;
    limits.same_failure = attempts_with(failure_signature(*end.failure, end.failure_class), journal_->events());
  }
  EndDecision decision = decide_end(end, limits);
  if (agent_lost_) {
    sweep(facts_.run_id, [this, decision] { carry_out(decision); });
  } else {
    carry_out(decision);
  }
}

// What is left anywhere of an attempt whose agents cannot be trusted to have ended.
void Supervisor::sweep(const std::string& run_id, std::function<void()> done) {
  std::string mark = std::string(env::kRunId) + "=" + run_id;
  if (!plan_.under_slurm) {
    agent::sweep_marked(mark);
    agent::remove_orphaned_pages();
    return done();
  }
  if (!lost_nodes_.empty()) return done();
  std::vector<std::string> names;
  for (const plan::PlannedNode& node : plan_.nodes) names.push_back(node.name);
  std::string count = std::to_string(names.size());
  std::vector<std::string> argv = {"srun",
                                   "--mpi=none",
                                   "--job-name=sweep",
                                   "--nodes=" + count,
                                   "--ntasks=" + count,
                                   "--ntasks-per-node=1",
                                   "--nodelist=" + compress_hostlist(names),
                                   "--overlap",
                                   "--input=none",
                                   "--export=ALL",
                                   "--quiet",
                                   options_.agent_path,
                                   "--sweep",
                                   mark};
  CommandOptions command;
  command.timeout = std::chrono::seconds(20);
  worker_->post([argv, command] { ignore(run_command(argv, command), "nothing more can be done"); }, std::move(done));
}

void Supervisor::carry_out(const EndDecision& decision) {
  using Action = EndDecision::Action;
  std::optional<Failure> cause = first_cause(failures_);
  const bool failed = cause && decision.action != Action::kComplete;
  const FailureClass its = failed ? classify(*cause, site_.failures) : FailureClass{};
  const std::string code = failed ? its.code : "";
  int64_t step = newest_saved_step();
  double seconds = static_cast<double>(monotonic_ms() - attempt_started_ms_) / 1000;
  switch (decision.action) {
    case Action::kComplete:
      journal_->job(JobState::kCompleted, decision.reason, step, "000", 0);
      say(fmt::format("completed in {}", seconds < 60 ? fmt::format("{:.1f} s", seconds)
                                                      : format_duration(std::chrono::seconds(std::lround(seconds)))));
      break;
    case Action::kRestart:
      if (check_nodes_first(decision, its)) return;
      if (decision.without_lost) return go_on_without_lost(decision.reason);
      ++restarts_done_;
      ++class_restarts_[its.name];
      say(fmt::format("{}; restart {} of {}", decision.reason, restarts_done_, plan_.restarts));
      if (agent_silent_) forget_old_step();
      return start_attempt(fmt::format("restart {} of {}: {}", restarts_done_, plan_.restarts, decision.reason));
    case Action::kRequeue:
      journal_->job(JobState::kPending, decision.reason, step, code, decision.exit_status);
      if (decision.exclude_node && cause) excluded_ = learners_[static_cast<size_t>(cause->rank)].host;
      say(fmt::format("{}; the job goes back into the queue{}", decision.reason,
                      excluded_.empty() ? "" : ", without node " + excluded_));
      exit_status_ = decision.exit_status;
      return put_back(false);
    case Action::kHold:
      journal_->job(JobState::kHalted, decision.reason, step, code, decision.exit_status);
      say(decision.reason + "; the job is held: dlctl resume " + plan_.job_id);
      exit_status_ = decision.exit_status;
      return put_back(true);
    case Action::kAlreadyRequeued:
      journal_->job(JobState::kPending, decision.reason, step, code, decision.exit_status);
      say(decision.reason);
      exit_status_ = decision.exit_status;
      putting_back_ = job_put_back_ = true;
      // Slurm's SIGTERM has come already: once, and away.
      return worker_->post(
          [job = plan_.job_id] {
            ignore(slurm_cli::set_start_time(job, slurm_cli::kRequeueDelay),
                   "the job then waits for Slurm's two minutes");
          },
          [this] { finish(exit_status_); });
    case Action::kStopped:
      journal_->job(JobState::kHalted, decision.reason, step, "", decision.exit_status);
      say(decision.reason);
      break;
    case Action::kFail:
      journal_->job(JobState::kFailed, decision.reason, step, code, decision.exit_status);
      std::fputs(failure_text(decision.reason, cause, its).c_str(), stderr);
      break;
  }
  int status = decision.exit_status;
  // A local Ctrl-C that could not save ends as the shell expects.
  if (decision.action == Action::kStopped && status == kExitNotSaved && !plan_.under_slurm && stop_ &&
      stop_->signal != 0)
    status = 128 + stop_->signal;
  settle_and_finish(status);
}

// What dlrun says last of a job that failed: the cause, its class where that says more, where its log is, and the log's
// last lines where those of other learners came between, or nothing was shown.
std::string Supervisor::failure_text(const std::string& reason, const std::optional<Failure>& cause,
                                     const FailureClass& its) const {
  std::string text = "dlrun: " + reason;
  if (!cause || cause->kind == Failure::Kind::kNotStarted) return text + "\n";
  if (its.code != kPlainCode) text += "; class " + format_class(its);
  if (cause->kind == Failure::Kind::kNoAgent || cause->kind == Failure::Kind::kLauncher) return text + "\n";
  text += fmt::format("; its output: {}\n", dir_.learner_log(attempt_, cause->rank));
  if (plan_.world_size() == 1 && !options_.quiet) return text;
  const auto& lines = cause->last_lines;
  for (size_t i = lines.size() - std::min(lines.size(), kShownLines); i < lines.size(); ++i)
    text += fmt::format("dlrun:   | {}\n", lines[i]);
  return text;
}

void Supervisor::settle_and_finish(int exit_status) {
  exit_status_ = exit_status;
  finished_ = true;
  // Agents exit when their connection is closed; what starts them follows.
  server_->close_all();
  poll(5, [this, since = monotonic_ms()] {
    reap_launchers();
    int64_t waited = monotonic_ms() - since;
    if (launcher_.any_running() && waited < 15000) {
      if (waited > 5000) launcher_.kill_all(waited > 10000 ? SIGKILL : SIGTERM);
      return false;
    }
    bool settled = journal_->comment_settled() && worker_->idle() && disk_->idle();
    // A cancelled job takes no comment any more.
    bool cancelled = stop_ && stop_->cause == StopCause::kCancelled;
    if (!settled && waited < (cancelled ? kSettleCancelledMs : kSettleLimitMs)) return false;
    finish(exit_status_);
    return true;
  });
}

void Supervisor::finish(int exit_status) {
  exit_status_ = exit_status;
  finished_ = true;
  lease_.release();
  if (control_written_) ::unlink(dir_.control().c_str());
  ::unlink(dir_.request().c_str());
  // What an agent that was killed has left: without Slurm it has come to us.
  if (!plan_.under_slurm) agent::kill_descendants(std::chrono::seconds(3));
  uv_stop(&loop_);
}

void Supervisor::put_back(bool hold) {
  putting_back_ = true;
  server_->close_all();
  lease_.release();
  if (control_written_) ::unlink(dir_.control().c_str());
  ::unlink(dir_.request().c_str());
  // Agents and srun end by themselves now; the fewer processes the requeue has to kill, the sooner the job is free.
  when_launchers_are_gone(1500, [this, hold] {
    auto outcome = std::make_shared<Status>();
    std::string excluded = excluded_;
    if (!excluded.empty() && job_ && !job_->excluded.empty()) excluded = job_->excluded + "," + excluded;
    // Queued behind the comment, which so is set before Slurm begins to kill.
    worker_->post([outcome, hold, job = plan_.job_id,
                   excluded] { *outcome = slurm_cli::requeue(job, hold, slurm_cli::requeue_delay(), excluded); },
                  [this, outcome] {
                    job_put_back_ = outcome->has_value();
                    if (job_put_back_) return keep_start_time();
                    std::fprintf(stderr, "dlrun: the job could not be put back: %s\n", outcome->error().text.c_str());
                    journal_->job(JobState::kFailed, "could not be put back: " + outcome->error().text, {}, "S104",
                                  exit_status_);
                    putting_back_ = false;
                    settle_and_finish(exit_status_);
                  });
  });
}

void Supervisor::when_launchers_are_gone(int64_t limit_ms, std::function<void()> then) {
  poll(5, [this, limit_ms, then, since = monotonic_ms()] {
    reap_launchers();
    if (launcher_.any_running() && monotonic_ms() - since < limit_ms) return false;
    then();
    return true;
  });
}

// Calls `step` each interval_ms until it returns true.
void Supervisor::poll(uint64_t interval_ms, std::function<bool()> step) {
  struct Poll {
    uv_timer_t timer{};
    std::function<bool()> step;
  };
  auto* poll = new Poll;
  poll->step = std::move(step);
  uv_timer_init(&loop_, &poll->timer);
  poll->timer.data = poll;
  uv_timer_start(
      &poll->timer,
      [](uv_timer_t* timer) {
        auto* self = static_cast<Poll*>(timer->data);
        if (!self->step()) return;
        uv_timer_stop(timer);
        uv_close(reinterpret_cast<uv_handle_t*>(timer), [](uv_handle_t* h) { delete static_cast<Poll*>(h->data); });
      },
      0, interval_ms);
}

// The job is being killed, and we with it. Until then its begin time is kept a few seconds ahead, so that Slurm does
// not replace it by one two minutes later when the last process has gone.
void Supervisor::keep_start_time() {
  poll(1000, [this, rounds = 0]() mutable {
    // KillWait and more; or the batch script is gone, so that nothing is left to wait for.
    if (killed_ || ++rounds > 45 || (options_.guard != nullptr && options_.guard->script_gone())) {
      finish(exit_status_);
      return true;
    }
    if (rounds == 1) return false;
    worker_->post(
        [job = plan_.job_id] {
          ignore(slurm_cli::set_start_time(job, slurm_cli::kRequeueDelay), "the requeue has set it once already");
        },
        {}, "start time");
    return false;
  });
}

}  // namespace dl::supervise
