// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/queue_return.h"

#include <fmt/core.h>

#include <csignal>
#include <cstdio>

#include "common/base/awake_clock.h"
#include "common/base/clock.h"
#include "launcher/supervise/repeat.h"
#include "launcher/supervise/succession.h"

namespace dl::supervise {

using record::JobState;

namespace {

constexpr int64_t kAgentsEndMs = 1500;

}  // namespace

// A dlrun that takes over from here carries the decision out.
void QueueReturn::decide() {
  calls_.leave();
  with_.journal->change_memory(
      [this](record::RunMemory* memory) { memory->decided = decided_text(with_.judge->decision().action); });
}

void QueueReturn::perform(const PutBack& back) {
  decide();
  with_.results->store(back.hold ? AfterEnd::kHeld : AfterEnd::kQueued,
                       [this, back] { put_back_unless_cancelled(back); });
}

// A job that was cancelled while its results were stored must not come back.
void QueueReturn::put_back_unless_cancelled(const PutBack& back) {
  if (!with_.results->tried() || back.at_once || !with_.nodes->plan().under_slurm) return put_back(back);
  with_.slurm->ask([this, back](const SlurmJob::Answer& job) {
    const NoticeReading reading = read_signal(with_.state->rules, SIGTERM, unix_ms(), job, unix_ms());
    if (!job || !reading.ends || reading.cause != StopCause::kCancelled) return put_back(back);
    error_ = "it was cancelled while its results were stored";
    calls_.happens(BackInQueue{false});
  });
}

void QueueReturn::put_back(const PutBack& back) {
  const EndDecision& decision = with_.judge->decision();
  Journal& journal = *with_.journal;
  const auto cause = with_.judge->cause();
  if (decision.exclude_node && cause)
    journal.change_memory(
        [&](record::RunMemory* memory) { memory->excluded = with_.attempt->learner(cause->rank).host; });
  const std::string use = with_.use->record(&journal, awake_ms());
  journal.job(back.hold ? JobState::kHalted : JobState::kPending, decision.reason + with_.results->not_stored("S305"),
              with_.attempt->newest_saved_step(), with_.judge->code(), decision.exit_status);
  const std::string& excluded = journal.memory().excluded;
  if (back.hold)
    with_.voice->say(decision.reason + "; the job is held: dlctl resume " + with_.nodes->plan().job_id);
  else
    with_.voice->say(fmt::format("{}; the job goes back into the queue{}", decision.reason,
                                 excluded.empty() ? "" : ", without node " + excluded));
  with_.voice->say_if(use);
  calls_.close();
  // Agents and srun now end by themselves. The fewer processes Slurm has to kill for the requeue, the sooner the nodes
  // are free. But if Slurm is killing them, it kills dlrun at the same time: the job would end with a record that says
  // that it waits in the queue.
  const int64_t limit_ms = back.at_once ? 0 : kAgentsEndMs;
  repeat(loop_, 5, [this, hold = back.hold, limit_ms, since = awake_ms()] {
    with_.agents->reap(awake_ms());
    if (with_.agents->any_running() && awake_ms() - since < limit_ms) return false;
    with_.other_runs->put_back(hold, with_.journal->memory().excluded, with_.judge->decision().reason,
                               [this](const Status& outcome) {
                                 if (!outcome) error_ = outcome.error().text;
                                 calls_.happens(BackInQueue{outcome.has_value()});
                               });
    return true;
  });
}

void QueueReturn::perform(const PutBackFailed& /*failed*/) {
  std::fprintf(stderr, "dlrun: the job could not be put back: %s\n", error_.c_str());
  with_.journal->change_memory(
      [](record::RunMemory* memory) { memory->decided = decided_text(EndDecision::Action::kFail); });
  with_.journal->job(JobState::kFailed, "could not be put back: " + error_, {}, "S104",
                     with_.judge->decision().exit_status);
  calls_.fail();
}

void QueueReturn::perform(const AlreadyBack& /*back*/) {
  decide();
  with_.results->store(AfterEnd::kQueued, [this] { already_back(); });
}

void QueueReturn::already_back() {
  const EndDecision& decision = with_.judge->decision();
  const std::string use = with_.use->record(with_.journal, awake_ms());
  with_.journal->job(JobState::kPending, decision.reason, with_.attempt->newest_saved_step(), with_.judge->code(),
                     decision.exit_status);
  with_.voice->say(decision.reason);
  with_.voice->say_if(use);
  if (!with_.other_runs->keeps_begin_time()) return calls_.happens(Settled{});
  with_.slurm->keep_begin_time([this] { calls_.happens(Settled{}); });
}

void QueueReturn::perform(const HoldJob& /*hold*/) {
  with_.slurm->hold();
}

// Slurm kills the job, and dlrun with it. Until then dlrun keeps the begin time a few seconds ahead; otherwise Slurm
// would set one two minutes ahead when the last process has gone.
void QueueReturn::perform(const KeepStartTime& /*keep*/) {
  repeat(loop_, 1000, [this, rounds = 0]() mutable {
    if (with_.state->phase == Phase::kOver) return true;
    // There is nothing left to wait for after KillWait and a margin, or once the batch script is gone.
    const bool script_gone = with_.guard != nullptr && with_.guard->script_gone();
    if (++rounds > with_.state->rules.kill_wait_s + 15 || script_gone) {
      calls_.happens(Settled{});
      return true;
    }
    if (rounds == 1) return false;
    if (with_.other_runs->keeps_begin_time()) with_.slurm->keep_begin_time({});
    return false;
  });
}

}  // namespace dl::supervise
