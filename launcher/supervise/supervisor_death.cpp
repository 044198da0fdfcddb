// SPDX-License-Identifier: Apache-2.0
// This dlrun takes the place of one that died (launcher/guard): a failure like others, with a class, a reason and an
// answer.
#include <fmt/format.h>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

// What Slurm says of the job is needed for the answer; and what the dead one may have left is ended first.
void Supervisor::take_over() {
  for (const record::Event& event : journal_->events())
    if (event.attempt == attempt_ && event.restart) restarts_done_ = *event.restart;
  auto found = std::make_shared<Result<slurm_cli::JobInfo>>(Error{});
  worker_->post(
      [found, ask = plan_.under_slurm && !job_, id = plan_.job_id] {
        if (ask) *found = slurm_cli::show_job(id);
      },
      [this, found] {
        if (*found) job_ = std::move(**found);
        const std::string& unswept = options_.predecessor.unswept;
        if (unswept.empty()) return answer_death();
        sweep(unswept, [this] { answer_death(); });
      });
}

void Supervisor::answer_death() {
  const guard::Predecessor& before = options_.predecessor;
  Failure death;
  death.kind = Failure::Kind::kLauncher;
  death.text = before.death;
  death.exit = before.exit_status;
  death.at_ms = monotonic_ms();
  RestartLimits limits;
  limits.restarts_max = plan_.restarts;
  limits.loop_guard = site_.loop_guard;
  limits.without_progress = attempts_without_progress(journal_->events());
  limits.measurable = plan_.checkpoint.has_value();
  limits.can_requeue = can_requeue();
  const EndDecision decision = decide_after_death(death, before.last, limits);
  if (decision.action == EndDecision::Action::kRestart) {
    say(decision.reason + "; another has taken its place");
    start_attempt("restart of dlrun: " + decision.reason, classify(death, site_.failures).code);
    if (before.notice != 0) on_signal(before.notice);
    return;
  }
  journal_->begin_attempt(attempt_, restarts_done_);
  failures_ = {death};
  carry_out(decision);
}

}  // namespace dl::supervise
