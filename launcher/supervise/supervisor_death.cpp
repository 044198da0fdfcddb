// SPDX-License-Identifier: Apache-2.0
// This dlrun takes the place of one that died (launcher/guard). The death is a failure like others, with a class, a
// reason and an answer.
#include <fmt/core.h>

#include <csignal>

#include "launcher/supervise/succession.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

// The answer to the death needs what Slurm reports of the job, and KillWait to know until when it may run; and
// processes that the dead dlrun may have left are ended before it.
void Supervisor::take_over() {
  next_start_ = NextStart::kTakeOver;
  if (plan().under_slurm && plan().asked.elastic()) companions_->give_back_strays(Companions::kStrayMs);
  take_memory();
  const auto go_on = [this](const SlurmJob::Answer& /*job*/) {
    if (plan().under_slurm) ask_for_its_stop();
    const std::string& unswept = options_.predecessor.unswept;
    if (!must_sweep(unswept, state_.stop, slurm_->can_requeue())) return answer_death();
    sweeper_->sweep(unswept, [this] { answer_death(); });
  };
  if (!plan().under_slurm) return go_on({});
  slurm_->ask_kill_wait([this, go_on](int64_t seconds) {
    state_.rules.kill_wait_s = seconds;
    // run() has asked about the job before this.
    if (slurm_->info()) return go_on({});
    slurm_->ask(go_on);
  });
}

// Goes on with what the dead dlrun had recorded (succession.h).
void Supervisor::take_memory() {
  journal_->remember(options_.predecessor.began ? record::remembered(journal_->events()) : record::RunMemory{});
  const std::string failed =
      options_.predecessor.began ? unanswered_failure(journal_->memory(), journal_->events()) : "";
  just_lost_ = nodes_.resume(journal_->memory(), awake_ms(), unix_ms());
  if (options_.settle) options_.settle(plan());
  if (journal_->memory().stop)
    for (const StopAsked& asked : ask_again(*journal_->memory().stop)) handle(asked);
  // The dead dlrun would have restarted the learners for it, or ended the job.
  if (!failed.empty())
    journal_->change_memory([&](record::RunMemory* memory) {
      ++memory->restarts;
      ++memory->class_restarts[failed];
    });
  if (just_lost_.empty()) return;
  journal_->change_memory([&](record::RunMemory* memory) {
    ++memory->moved;
    memory->lost.clear();
    memory->left_out.insert(memory->left_out.end(), just_lost_.begin(), just_lost_.end());
  });
}

// The dead dlrun may not have known yet what a signal meant, or not have got it. Whatever Slurm sends a signal for can
// be seen in what it says of the job.
void Supervisor::ask_for_its_stop() {
  const guard::Predecessor& before = options_.predecessor;
  const int signal = before.notice != 0 ? before.notice : SIGUSR2;
  const int64_t signal_ms = before.notice != 0 ? before.notice_ms : unix_ms();
  const std::optional<slurm_cli::JobInfo>& job = slurm_->info();
  const NoticeReading reading = read_signal(state_.rules, signal, signal_ms, job, unix_ms());
  if (reading.kind != NoticeReading::Kind::kStop) return;
  if (job && job->preempt_time && reading.cause == StopCause::kPreemption) journal_->preempted();
  handle(StopAsked{reading.cause, reading.deadline_ms, before.notice, stop_cause_name(reading.cause), 0});
}

void Supervisor::answer_death() {
  const guard::Predecessor& before = options_.predecessor;
  Failure death;
  death.kind = Failure::Kind::kLauncher;
  death.text = before.death;
  death.exit = before.exit_status;
  death.at_ms = awake_ms();
  bool goes_on = false;
  const Decided decided = judge_->after_death(death, before, &goes_on);
  journal_->begin_attempt(attempts_, journal_->memory().restarts);
  if (!goes_on) attempt_.fail(death);
  handle(decided);
}

void Supervisor::start_in_place_of_dead() {
  const std::string code = judge_->code();
  voice_.say(judge_->decision().reason + "; another has taken its place");
  start_attempt("restart of dlrun: " + judge_->decision().reason, code);
  if (!just_lost_.empty()) release_lost(just_lost_);
}

}  // namespace dl::supervise
