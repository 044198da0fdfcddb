// SPDX-License-Identifier: Apache-2.0
// The states after an attempt: another attempt, a return to the queue, or the end.
#include "launcher/supervise/run_step.h"

namespace dl::supervise {

using What = EndDecision::Action;

// Whether Slurm has to be asked before the end can be judged: if it is not known yet whether the job may be requeued;
// if SIGTERM ended the learners before dlrun knew what it meant (some sites' Slurm sends it to every process of a
// step); or if they were killed, and it is not known whether Slurm is ending the job, whatever the job was stopped for
// before.
bool RunStep::must_ask_why(const AttemptOver& over) const {
  if (!s_.rules.under_slurm) return false;
  if (!over.job_known || (over.by_kill && s_.question.open)) return true;
  return !s_.stop && (s_.question.open || over.by_sigterm);
}

void RunStep::on(const WhyKnown& why) {
  if (s_.phase != Phase::kJudging) return;
  // A signal that came since needs an answer, too: a SIGTERM after SIGUSR2, about which Slurm was asked first.
  if (s_.by_kill && s_.question.open) return act(AskWhy{});
  if (why.by_slurm && !s_.stop) {
    s_.stop.emplace();
    s_.stop->cause = *why.by_slurm;
    s_.stop->not_saved_reason = "not saved: Slurm's SIGTERM ended the learners";
  }
  act(JudgeEnd{});
}

void RunStep::on(const Decided& decided) {
  // In kIdle, this dlrun has taken the place of one that died.
  if (s_.phase != Phase::kJudging && s_.phase != Phase::kCheckingNodes && s_.phase != Phase::kIdle) return;
  if (s_.phase == Phase::kCheckingNodes) s_.nodes_checked = true;
  s_.decided = decided;
  s_.is_decided = true;
  if (!decided.sweep) return carry_out();
  s_.phase = Phase::kSweeping;
  act(Sweep{});
}

void RunStep::on(const Swept& /*swept*/) {
  if (s_.phase == Phase::kSweeping) carry_out();
}

void RunStep::on(const VersionKnown& /*known*/) {
  if (s_.phase != Phase::kJudging) return;
  s_.version_known = true;
  carry_out();
}

// Whether a stop replaces the decision that was made. Either the stop came when the attempt was ending; or a node was
// lost while the learners saved, so that the decision is to go on, or to wait in the queue where the job should be
// held.
bool RunStep::is_overruled() const {
  if (!s_.stop || s_.overruled || s_.stop->cause == StopCause::kOtherNodes) return false;
  if (s_.decided.again || s_.decided.what == What::kRestart) return true;
  const StopCause cause = s_.stop->cause;
  const bool same = cause == StopCause::kPreemption || cause == StopCause::kYield || cause == StopCause::kResize ||
                    cause == StopCause::kTimeLimit || cause == StopCause::kTogether;
  return s_.decided.what == What::kRequeue && !same;
}

void RunStep::carry_out() {
  s_.phase = Phase::kJudging;
  if (is_overruled()) {
    s_.overruled = true;
    return act(JudgeStopped{});
  }
  if (s_.decided.again) return start_attempt();
  if (s_.decided.ask_version && !s_.version_known) return act(AskVersion{});
  switch (s_.decided.what) {
    case What::kRestart:
      if (!s_.decided.check || s_.nodes_checked) return start_attempt();
      s_.phase = Phase::kCheckingNodes;
      return act(CheckNodes{});
    case What::kRequeue:
    case What::kHold:
      s_.phase = Phase::kPuttingBack;
      s_.hold = s_.decided.what == What::kHold;
      return act(PutBack{s_.hold, s_.decided.by_slurm});
    case What::kAlreadyRequeued:
      // Slurm has requeued the job and has already sent SIGTERM, so dlrun sets the begin time once and ends.
      s_.phase = Phase::kPuttingBack;
      s_.back_in_queue = true;
      s_.hold = s_.stop && s_.stop->hold;
      if (s_.hold) act(HoldJob{});
      return act(AlreadyBack{});
    case What::kComplete:
    case What::kFail:
    case What::kStopped:
      s_.phase = Phase::kSettling;
      return act(End{});
  }
}

void RunStep::on(const BackInQueue& back) {
  if (s_.phase != Phase::kPuttingBack) return;
  if (!back.done) {
    s_.phase = Phase::kSettling;
    return act(PutBackFailed{});
  }
  s_.back_in_queue = true;
  if (s_.hold && s_.decided.what != What::kHold) act(HoldJob{});
  if (!s_.killed) return act(KeepStartTime{});
  s_.phase = Phase::kOver;
  act(Finish{});
}

void RunStep::on(const Settled& /*settled*/) {
  if (s_.phase != Phase::kSettling && s_.phase != Phase::kPuttingBack) return;
  s_.phase = Phase::kOver;
  act(Finish{});
}

}  // namespace dl::supervise
