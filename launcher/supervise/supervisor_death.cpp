// SPDX-License-Identifier: Apache-2.0
// This dlrun takes the place of one that died (launcher/guard). The death is a failure like others, with a class, a
// reason and an answer.
#include <fmt/core.h>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

// The answer to the death needs what Slurm reports of the job; and processes that the dead dlrun may have left are
// ended before it.
void Supervisor::take_over() {
  next_start_ = NextStart::kTakeOver;
  take_memory();
  const auto go_on = [this](const SlurmJob::Answer& /*job*/) {
    const std::string& unswept = options_.predecessor.unswept;
    if (unswept.empty()) return answer_death();
    sweep(unswept, [this] { answer_death(); });
  };
  if (slurm_->info()) return go_on({});
  slurm_->ask(go_on);
}

// Goes on with what the dead dlrun had recorded: restarts, lost nodes, the fence.
void Supervisor::take_memory() {
  memory_ = record::remembered(journal_->events());
  journal_->remember(memory_);
  just_lost_ = nodes_.resume(memory_, awake_ms(), unix_ms());
  if (options_.settle) options_.settle(plan());
  if (just_lost_.empty()) return;
  remember([&](record::RunMemory* memory) {
    ++memory->moved;
    memory->lost.clear();
    memory->left_out.insert(memory->left_out.end(), just_lost_.begin(), just_lost_.end());
  });
}

void Supervisor::answer_death() {
  const guard::Predecessor& before = options_.predecessor;
  Failure death;
  death.kind = Failure::Kind::kLauncher;
  death.text = before.death;
  death.exit = before.exit_status;
  death.at_ms = awake_ms();
  RestartLimits limits;
  limits.restarts_max = plan().restarts;
  limits.loop_guard = site_.loop_guard;
  limits.without_progress = attempts_without_progress(journal_->events());
  limits.measurable = plan().checkpoint.has_value();
  limits.can_requeue = slurm_->can_requeue();
  limits.node_lost = nodes_.any_lost();  // a lost node is left only where the rest of the allocation does not suffice
  const EndDecision decision = decide_after_death(death, before.last, limits);
  journal_->begin_attempt(attempts_, memory_.restarts);
  attempt_.failures = {death};
  decision_ = decision;
  if (!memory_.pause.empty()) ask_to_stop(StopCause::kPause, {}, 0, memory_.pause);
  handle(decided_of_decision());
  if (before.notice != 0) handle(Signalled{before.notice});
}

void Supervisor::start_in_place_of_dead() {
  const std::string code = class_code();
  say(decision_.reason + "; another has taken its place");
  start_attempt("restart of dlrun: " + decision_.reason, code);
  if (!just_lost_.empty()) release_lost(just_lost_);
}

}  // namespace dl::supervise
