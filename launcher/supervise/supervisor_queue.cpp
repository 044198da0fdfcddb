// SPDX-License-Identifier: Apache-2.0
// Puts the job back into the queue, or holds it there. dlrun keeps setting the job's begin time until Slurm ends the
// job and dlrun with it.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "launcher/supervise/repeat.h"
#include "launcher/supervise/succession.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using record::JobState;

void Supervisor::perform(const PutBack& back) {
  growth_->run_ends();
  exit_status_ = judge_->decision().exit_status;
  journal_->change_memory(
      [this](record::RunMemory* memory) { memory->decided = decided_text(judge_->decision().action); });
  results_->store(back.hold ? AfterEnd::kHeld : AfterEnd::kQueued, attempts_,
                  [this, back] { put_back_unless_cancelled(back); });
}

// A job that was cancelled while its results were stored must not come back.
void Supervisor::put_back_unless_cancelled(const PutBack& back) {
  if (!results_->tried() || back.at_once || !plan().under_slurm) return put_back(back);
  slurm_->ask([this, back](const SlurmJob::Answer& job) {
    const NoticeReading reading = read_signal(state_.rules, SIGTERM, unix_ms(), job, unix_ms());
    if (!job || !reading.ends || reading.cause != StopCause::kCancelled) return put_back(back);
    put_back_error_ = "it was cancelled while its results were stored";
    handle(BackInQueue{false});
  });
}

void Supervisor::put_back(const PutBack& back) {
  const auto cause = judge_->cause();
  if (judge_->decision().exclude_node && cause)
    journal_->change_memory([&](record::RunMemory* memory) { memory->excluded = attempt_.learner(cause->rank).host; });
  const std::string use = record_use();
  journal_->job(back.hold ? JobState::kHalted : JobState::kPending,
                judge_->decision().reason + results_->not_stored("S305"), attempt_.newest_saved_step(), judge_->code(),
                judge_->decision().exit_status);
  if (back.hold)
    voice_.say(judge_->decision().reason + "; the job is held: dlctl resume " + plan().job_id);
  else
    voice_.say(fmt::format("{}; the job goes back into the queue{}", judge_->decision().reason,
                           journal_->memory().excluded.empty() ? "" : ", without node " + journal_->memory().excluded));
  voice_.say_if(use);
  look_for_request_file();  // for a pause that was asked for at the last moment
  server_->close_all();
  lease_->release();
  if (control_written_) ::unlink(dir_.control().c_str());
  // Agents and srun now end by themselves. The fewer processes Slurm has to kill for the requeue, the sooner the nodes
  // are free. But if Slurm is killing them, it kills dlrun at the same time: the job would end with a record that says
  // that it waits in the queue.
  const int64_t limit_ms = back.at_once ? 0 : 1500;
  repeat(&loop_, 5, [this, hold = back.hold, limit_ms, since = awake_ms()] {
    agents_->reap(awake_ms());
    if (agents_->any_running() && awake_ms() - since < limit_ms) return false;
    other_runs_->put_back(hold, journal_->memory().excluded, judge_->decision().reason, [this](const Status& outcome) {
      if (!outcome) put_back_error_ = outcome.error().text;
      handle(BackInQueue{outcome.has_value()});
    });
    return true;
  });
}

void Supervisor::perform(const PutBackFailed& /*failed*/) {
  std::fprintf(stderr, "dlrun: the job could not be put back: %s\n", put_back_error_.c_str());
  journal_->change_memory(
      [](record::RunMemory* memory) { memory->decided = decided_text(EndDecision::Action::kFail); });
  journal_->job(JobState::kFailed, "could not be put back: " + put_back_error_, {}, "S104", exit_status_);
  settle(exit_status_, {});
}

void Supervisor::perform(const HoldJob& /*hold*/) {
  slurm_->hold();
}

void Supervisor::perform(const AlreadyBack& /*back*/) {
  growth_->run_ends();
  exit_status_ = judge_->decision().exit_status;
  journal_->change_memory(
      [this](record::RunMemory* memory) { memory->decided = decided_text(judge_->decision().action); });
  results_->store(AfterEnd::kQueued, attempts_, [this] { already_back(); });
}

void Supervisor::already_back() {
  const std::string use = record_use();
  journal_->job(JobState::kPending, judge_->decision().reason, attempt_.newest_saved_step(), judge_->code(),
                judge_->decision().exit_status);
  voice_.say(judge_->decision().reason);
  voice_.say_if(use);
  if (!other_runs_->keeps_begin_time()) return handle(Settled{});
  slurm_->keep_begin_time([this] { handle(Settled{}); });
}

// Slurm kills the job, and dlrun with it. Until then dlrun keeps the begin time a few seconds ahead; otherwise Slurm
// would set one two minutes ahead when the last process has gone.
void Supervisor::perform(const KeepStartTime& /*keep*/) {
  repeat(&loop_, 1000, [this, rounds = 0]() mutable {
    if (state_.phase == Phase::kOver) return true;
    // There is nothing left to wait for after KillWait and a margin, or once the batch script is gone.
    if (++rounds > state_.rules.kill_wait_s + 15 || (options_.guard != nullptr && options_.guard->script_gone())) {
      handle(Settled{});
      return true;
    }
    if (rounds == 1) return false;
    if (other_runs_->keeps_begin_time()) slurm_->keep_begin_time({});
    return false;
  });
}

}  // namespace dl::supervise
