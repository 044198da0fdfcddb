// SPDX-License-Identifier: Apache-2.0
// What comes after an attempt: a restart, a return to the queue, a hold, or the end of the run.
#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <utility>

#include "common/base/parse.h"
#include "common/contract/exit_codes.h"
#include "common/process/descendants.h"
#include "launcher/supervise/once_more.h"
#include "launcher/supervise/repeat.h"
#include "launcher/supervise/succession.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

using record::JobState;

constexpr int64_t kSettleLimitMs = 20000;  // for the last comment to reach slurmctld
constexpr int64_t kSettleCancelledMs = 1000;

}  // namespace

void Supervisor::perform(const AskWhy& /*ask*/) {
  slurm_->ask(
      [this, signal_ms = unix_ms()](const SlurmJob::Answer& /*job*/) { handle(judge_->why(signal_ms, unix_ms())); });
}

void Supervisor::perform(const JudgeEnd& /*judge*/) {
  growth_->attempt_ends();
  handle(judge_->end(awake_ms(), unix_ms()));
}

void Supervisor::perform(const JudgeStopped& /*judge*/) {
  handle(judge_->stopped(awake_ms(), unix_ms()));
}

void Supervisor::perform(const Sweep& /*sweep*/) {
  sweeper_->sweep(attempt_.facts().run_id, [this] { handle(Swept{}); });
}

void Supervisor::perform(const AskVersion& /*ask*/) {
  slurm_->ask_version([this] { handle(VersionKnown{}); });
}

void Supervisor::perform(const End& /*end*/) {
  growth_->run_ends();
  journal_->change_memory(
      [this](record::RunMemory* memory) { memory->decided = decided_text(judge_->decision().action); });
  results_->store(AfterEnd::kOver, [this] { end_run(); });
}

void Supervisor::end_run() {
  using Action = EndDecision::Action;
  if (judge_->may_come_once_more() && slurm_->version() && puts_back_once_more(*slurm_->version())) {
    journal_->once_more(plan().slurm_restart_count + 1, command_text(plan().command));
    voice_.say("Slurm puts a job that was preempted back once more after its end; that start will run nothing");
  }
  const int64_t step = attempt_.newest_saved_step();
  const double seconds = static_cast<double>(awake_ms() - attempt_.started_ms()) / 1000;
  const EndDecision& decision = judge_->decision();
  watch_.look_at_own_output(options_.quiet);
  const std::string lost = watch_.log_losses().summary(journal_->lost());
  const std::string reason = decision.reason + (lost.empty() ? "" : "; " + lost);
  const std::string use = use_->record(journal_.get(), awake_ms());
  std::string words;
  int exit_status = judge_->exit_status();
  if (decision.action == Action::kComplete && results_->left_behind()) {
    exit_status = kExitData;
    journal_->job(JobState::kFailed, reason + results_->not_stored(kResultsCode), step, kResultsCode, exit_status);
    words = fmt::format("{}: {}{}; they are in {}\n", voice_.name(), reason, results_->not_stored(kResultsCode),
                        dir_.root());
  } else if (decision.action == Action::kComplete) {
    journal_->job(JobState::kCompleted, reason + results_->not_stored(kResultsCode), step, "000", 0);
    // A dlrun that takes over at the end has begun no attempt.
    if (!options_.quiet && attempt_.started_ms() == 0)
      words = voice_.name() + ": " + reason + "\n";
    else if (!options_.quiet)
      words = fmt::format("{}: completed in {}\n", voice_.name(),
                          seconds < 60 ? fmt::format("{:.1f} s", seconds)
                                       : format_duration(std::chrono::seconds(std::lround(seconds))));
  } else if (decision.action == Action::kStopped) {
    journal_->job(JobState::kHalted, reason + results_->not_stored("S305"), step, "", decision.exit_status);
    if (!options_.quiet) words = voice_.name() + ": " + decision.reason + results_->not_stored("S305") + "\n";
  } else {
    journal_->job(JobState::kFailed, reason + results_->not_stored("S304"), step, judge_->code(), decision.exit_status);
    const auto cause = judge_->cause();
    words = judge_->failure_text(voice_.name(), options_.quiet, dir_.learner_log(attempts_, cause ? cause->rank : 0));
  }
  if (!use.empty() && !options_.quiet) words += voice_.name() + ": " + use + "\n";
  // Summed up again, because writing the last event may have failed, too.
  if (const std::string all = watch_.log_losses().summary(journal_->lost()); !all.empty())
    words += voice_.name() + ": " + all + "\n";
  settle(exit_status, std::move(words));
}

// Another attempt after a failure.
void Supervisor::restart() {
  if (judge_->decision().without_lost) return go_on_without_lost(judge_->decision().reason);
  if (nodes_.larger()) endpoint_ = growth_->take();
  if (judge_->decision().other_nodes) {
    journal_->change_memory([](record::RunMemory* memory) { ++memory->moved; });
    const std::string text = judge_->decision().reason + "; " + growth_->size_text();
    voice_.say(text);
    return start_attempt("restart at another size: " + text);
  }
  journal_->change_memory([&](record::RunMemory* memory) {
    ++memory->restarts;
    ++memory->class_restarts[judge_->failure_class().name];
  });
  voice_.say(
      fmt::format("{}; restart {} of {}", judge_->decision().reason, journal_->memory().restarts, plan().restarts));
  if (attempt_.agent_silent()) forget_old_step();
  start_attempt(
      fmt::format("restart {} of {}: {}", journal_->memory().restarts, plan().restarts, judge_->decision().reason));
}

// The last words are written after the last output of the learners, which srun and the agents are still passing on.
void Supervisor::settle(int exit_status, std::string last_words) {
  exit_status_ = exit_status;
  // Agents exit when their connection is closed, and then srun or mpirun exits, too.
  pool_->dismiss_reserve();
  server_->close_all();
  repeat(&loop_, 5, [this, since = awake_ms(), last_words = std::move(last_words), sent = 0]() mutable {
    agents_->reap(awake_ms());
    int64_t waited = awake_ms() - since;
    if (agents_->any_running() && waited < 15000) {
      // Once each: srun prints a line for each signal that it gets.
      const int signal = waited > 10000 ? SIGKILL : waited > 5000 ? SIGTERM : 0;
      if (signal != std::exchange(sent, signal)) agents_->kill_all(signal);
      return false;
    }
    if (!last_words.empty()) watch_.look_at_own_output(options_.quiet);  // the learners may have written since
    std::fputs(std::exchange(last_words, {}).c_str(), stderr);
    log_times_->flush();
    bool settled = journal_->comment_settled() && slurm_->idle() && companions_->idle() && lease_->idle() &&
                   scaling_->idle() && log_times_->idle() && use_->idle() && results_->idle();
    // A cancelled job's comment cannot be set any more, so it is not waited for.
    bool cancelled = state_.stop && state_.stop->cause == StopCause::kCancelled;
    if (!settled && waited < (cancelled ? kSettleCancelledMs : kSettleLimitMs)) return false;
    handle(Settled{});
    return true;
  });
}

void Supervisor::perform(const Finish& /*finish*/) {
  lease_->release();
  if (control_written_) ::unlink(dir_.control().c_str());
  ::unlink(dir_.request().c_str());
  // Without Slurm, processes that a killed agent has left are now children of dlrun.
  if (!plan().under_slurm) kill_descendants(std::chrono::seconds(3));
  uv_stop(&loop_);
}

}  // namespace dl::supervise
