// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/successor.h"

#include <csignal>

#include "common/base/awake_clock.h"
#include "common/base/clock.h"
#include "launcher/supervise/succession.h"

namespace dl::supervise {

// The answer to the death needs what Slurm reports of the job, and KillWait to know until when it may run; and
// processes that the dead dlrun may have left are ended before it.
void Successor::take_over() {
  take_memory();
  if (!with_.nodes->plan().under_slurm) return sweep_and_answer();
  with_.slurm->ask_kill_wait([this](int64_t seconds) {
    calls_.kill_wait(seconds);
    // The run has asked about the job before this.
    if (with_.slurm->info()) return sweep_and_answer();
    with_.slurm->ask([this](const SlurmJob::Answer& /*job*/) { sweep_and_answer(); });
  });
}

// Goes on with what the dead dlrun had recorded.
void Successor::take_memory() {
  Journal& journal = *with_.journal;
  journal.remember(before_.began ? record::remembered(journal.events()) : record::RunMemory{});
  const std::string failed = before_.began ? unanswered_failure(journal.memory(), journal.events()) : "";
  just_lost_ = with_.nodes->resume(journal.memory(), awake_ms(), unix_ms());
  if (calls_.settle) calls_.settle(with_.nodes->plan());
  if (journal.memory().stop)
    for (const StopAsked& asked : ask_again(*journal.memory().stop)) calls_.happens(asked);
  // The dead dlrun would have restarted the learners for it, or ended the job.
  if (!failed.empty())
    journal.change_memory([&](record::RunMemory* memory) {
      ++memory->restarts;
      ++memory->class_restarts[failed];
    });
  if (just_lost_.empty()) return;
  journal.change_memory([&](record::RunMemory* memory) {
    ++memory->moved;
    memory->lost.clear();
    memory->left_out.insert(memory->left_out.end(), just_lost_.begin(), just_lost_.end());
  });
}

void Successor::sweep_and_answer() {
  if (with_.nodes->plan().under_slurm) ask_for_its_stop();
  if (!must_sweep(before_.unswept, with_.state->stop, with_.slurm->can_requeue())) return answer();
  with_.sweeper->sweep(before_.unswept, [this] { answer(); });
}

// The dead dlrun may not have known yet what a signal meant, or not have got it. Whatever Slurm sends a signal for can
// be seen in what it says of the job.
void Successor::ask_for_its_stop() {
  const int signal = before_.notice != 0 ? before_.notice : SIGUSR2;
  const int64_t signal_ms = before_.notice != 0 ? before_.notice_ms : unix_ms();
  const std::optional<slurm_cli::JobInfo>& job = with_.slurm->info();
  const NoticeReading reading = read_signal(with_.state->rules, signal, signal_ms, job, unix_ms());
  if (reading.kind != NoticeReading::Kind::kStop) return;
  if (job && job->preempt_time && reading.cause == StopCause::kPreemption) with_.journal->preempted();
  calls_.happens(StopAsked{reading.cause, reading.deadline_ms, before_.notice, stop_cause_name(reading.cause), 0});
}

void Successor::answer() {
  Failure death;
  death.kind = Failure::Kind::kLauncher;
  death.text = before_.death;
  death.exit = before_.exit_status;
  death.at_ms = awake_ms();
  bool goes_on = false;
  const Decided decided = with_.judge->after_death(death, before_, &goes_on);
  with_.journal->begin_attempt(with_.journal->attempt(), with_.journal->memory().restarts);
  if (!goes_on) with_.attempt->fail(death);
  calls_.happens(decided);
}

void Successor::start() {
  const std::string code = with_.judge->code();
  with_.voice->say(with_.judge->decision().reason + "; another has taken its place");
  calls_.start("restart of dlrun: " + with_.judge->decision().reason, code);
  if (!just_lost_.empty()) calls_.release(just_lost_);
}

}  // namespace dl::supervise
