// SPDX-License-Identifier: Apache-2.0
// Stopping: every kind of request (preemption, time limit, dlctl pause, Ctrl-C) leads to take_stop().
#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "launcher/supervise/run_step.h"

namespace dl::supervise {
namespace {

constexpr int64_t kQuietMs = 1500;   // each agent passes Slurm's signal on once, within this time
constexpr int64_t kSameKeyMs = 300;  // some programs signal both a process and its group
// How long dlrun waits for Slurm's answer before it assumes what a signal means. The answer mostly takes some
// hundredths of a second. A save cannot be taken back once it has begun, and a cancelled job would hold its nodes until
// it ends. After SIGUSR2 a longer wait costs nothing, while the time may not suffice for two saves.
constexpr int64_t kTermPatienceMs = 500, kUsr2PatienceMs = 5000;

bool never_saves(StopCause cause) {
  return cause == StopCause::kCancelled || cause == StopCause::kLeaseLost;
}
// Whether a new cause replaces the cause of a stop that has begun: a decision of Slurm's, or the loss of the checkpoint
// directory.
bool is_harder(StopCause cause) {
  return cause == StopCause::kSlurmRequeue || never_saves(cause);
}
bool goes_back(StopCause cause) {
  return cause == StopCause::kPreemption || cause == StopCause::kYield || cause == StopCause::kResize ||
         cause == StopCause::kTimeLimit || cause == StopCause::kTogether;
}

}  // namespace

void RunStep::on(const StopAsked& asked) {
  const StopAnswer::Kind kind = take_stop(asked, false);
  act(StopAnswer{asked.asker, kind});
}

StopAnswer::Kind RunStep::take_stop(StopAsked asked, bool presumed) {
  if (s_.alive()) return s_.stop ? merge(asked) : stop_alive(std::move(asked), presumed);
  return stop_after_attempt(asked);
}

// Answers a request to stop that comes while no learner runs.
StopAnswer::Kind RunStep::stop_after_attempt(const StopAsked& asked) {
  if (s_.finished()) return StopAnswer::Kind::kTooLate;
  if (s_.phase == Phase::kPuttingBack) {
    if (asked.cause != StopCause::kPause || s_.hold) return StopAnswer::Kind::kAlready;
    s_.hold = true;
    if (s_.back_in_queue) act(HoldJob{});
    return StopAnswer::Kind::kLater;
  }
  using What = EndDecision::Action;
  const bool goes_on = s_.decided.what == What::kRestart || s_.decided.what == What::kRequeue || s_.decided.again ||
                       (s_.decided.what == What::kAlreadyRequeued && asked.cause == StopCause::kPause);
  if (s_.is_decided && !goes_on) return StopAnswer::Kind::kTooLate;
  if (s_.stop) return merge(asked);
  s_.stop.emplace();
  s_.stop->cause = asked.cause;
  s_.stop->who = asked.who;
  s_.stop->signal = asked.signal;
  s_.stop->deadline_ms = asked.deadline_ms;
  s_.stop->late = true;
  s_.stop->hold = asked.cause == StopCause::kPause;
  // In kIdle, this dlrun takes the place of one that died.
  s_.stop->not_saved_reason =
      s_.phase == Phase::kIdle ? "dlrun died before the learners had saved" : "stopped before training began";
  return StopAnswer::Kind::kLater;
}

StopAnswer::Kind RunStep::stop_alive(StopAsked asked, bool presumed) {
  s_.stop.emplace();
  s_.stop->cause = asked.cause;
  s_.stop->who = std::move(asked.who);
  s_.stop->signal = asked.signal;
  s_.stop->deadline_ms = asked.deadline_ms;
  s_.stop->presumed = presumed;
  s_.stop->hold = asked.cause == StopCause::kPause;
  if (s_.ending()) {
    s_.stop->late = true;
    s_.stop->not_saved_reason = "not saved: the learners had failed";
    return StopAnswer::Kind::kLater;
  }
  if (s_.phase == Phase::kStarting || !s_.all_started) {
    const bool starting = s_.phase == Phase::kStarting;
    s_.stop->not_saved_reason = "stopped before training began";
    s_.stop->save = false;
    s_.stop->killing = true;
    say(fmt::format("stopping ({})", s_.stop->who));
    kill(0);
    if (starting) act(GiveUpUnheard{});
    return StopAnswer::Kind::kTaken;
  }
  begin_stop();
  return StopAnswer::Kind::kTaken;
}

// Merges a request into the stop that has begun: a decision of Slurm's replaces its cause, and an earlier deadline
// shortens it.
StopAnswer::Kind RunStep::merge(const StopAsked& asked) {
  Stop& stop = *s_.stop;
  if (asked.deadline_ms && (!stop.deadline_ms || *asked.deadline_ms < *stop.deadline_ms))
    stop.deadline_ms = asked.deadline_ms;
  // Whatever ends the run, or takes it off its nodes, counts more than that it was to go on on others.
  if (stop.cause == StopCause::kOtherNodes && !is_harder(asked.cause)) {
    if (asked.cause == StopCause::kOtherNodes) return StopAnswer::Kind::kAlready;
    stop.cause = asked.cause;
    stop.who = asked.who;
    stop.signal = asked.signal;
    stop.hold = asked.cause == StopCause::kPause;
    return StopAnswer::Kind::kTaken;
  }
  if (is_harder(asked.cause)) {
    stop.cause = asked.cause;
    s_.overruled = false;
    drop_save(asked.cause);
    return StopAnswer::Kind::kAlready;
  }
  // A pause makes a job that goes back into the queue be held there.
  const bool back = goes_back(stop.cause) || stop.cause == StopCause::kSlurmRequeue;
  if (asked.cause != StopCause::kPause || !back) return StopAnswer::Kind::kAlready;
  stop.hold = true;
  if (stop.cause == StopCause::kSlurmRequeue) return StopAnswer::Kind::kLater;
  stop.cause = StopCause::kPause;
  s_.overruled = false;
  stop.who = asked.who;
  return StopAnswer::Kind::kTaken;
}

void RunStep::drop_save(StopCause cause) {
  if (!never_saves(cause) || !s_.stop->save) return;
  const bool undecided = !s_.agreement.open() || s_.agreement.upgrade(ProgressPage::kExitWithoutSave);
  if (!undecided && !s_.stop_waits) return;  // the save is being made
  s_.stop->save = s_.stop->local = false;
  s_.stop->not_saved_reason = cause == StopCause::kCancelled
                                  ? "not saved: the job was cancelled"
                                  : "not saved: the checkpoint directory belongs to another job";
}

// Decides whether and where running learners save, and begins to stop them.
void RunStep::begin_stop() {
  Stop& stop = *s_.stop;
  s_.phase = Phase::kStopping;
  if (never_saves(stop.cause)) {
    drop_save(stop.cause);
  } else {
    std::optional<int64_t> remaining;
    if (stop.deadline_ms) remaining = *stop.deadline_ms - kPutBackMs - now_.unix_ms;
    const GraceDecision grace = decide_grace(now_.times, remaining);
    // If the deadline is only presumed, Slurm may give more time, and trying to save costs nothing.
    stop.save = grace.save || stop.presumed;
    stop.local = grace.local;
    if (!stop.save) stop.not_saved_reason = grace.text;
    if (grace.local) say(grace.text);
  }
  uint32_t kind = stop.local ? ProgressPage::kSaveLocalAndExit : ProgressPage::kSaveAndExit;
  if (!stop.save) kind = ProgressPage::kExitWithoutSave;
  if (!s_.agreement.open())
    begin_agreement(kind);
  else if (!s_.agreement.upgrade(kind))
    s_.stop_waits = true;  // the learners are saving at this moment; the stop follows that save
}

void RunStep::on(const Signalled& signalled) {
  const int signal = signalled.signal;
  if (s_.phase == Phase::kPuttingBack && signal == SIGTERM) {
    // Slurm is ending the job. dlrun exits at once, which frees the nodes sooner, but not before the begin time is set.
    s_.killed = true;
    if (!s_.back_in_queue) return;
    s_.phase = Phase::kOver;
    return act(Finish{});
  }
  if (s_.phase == Phase::kPuttingBack || s_.finished()) return;
  if (signal == SIGINT || signal == SIGHUP || (signal == SIGTERM && !s_.rules.under_slurm)) return interrupted(signal);
  if (s_.rules.under_slurm) return asked_by_slurm(signal);
  if (s_.phase == Phase::kRunning) begin_agreement(ProgressPage::kSave);
}

void RunStep::interrupted(int signal) {
  if (s_.interrupts == 0 || now_.awake_ms - s_.interrupted_ms > kSameKeyMs) ++s_.interrupts;
  s_.interrupted_ms = now_.awake_ms;
  if (s_.interrupts > 1 && signal == SIGINT) {
    say("stopping at once");
    if (s_.stop) s_.stop->not_saved_reason = "not saved: interrupted twice";
    return kill(0);
  }
  StopAsked asked;
  asked.cause = StopCause::kInterrupt;
  asked.signal = signal;
  asked.who = signal == SIGINT ? "Ctrl-C" : "a signal";
  take_stop(std::move(asked), false);
}

void RunStep::asked_by_slurm(int signal) {
  Question& question = s_.question;
  const bool stronger = signal == SIGTERM && question.signal == SIGUSR2;
  if (question.open) {
    if (stronger && question.term_ms == 0) question.term_ms = now_.unix_ms;
    return;
  }
  const bool again = question.signal != 0 && now_.awake_ms - question.answered_ms < kQuietMs;
  if (!again || stronger) ask_slurm(signal, now_.unix_ms);
}

void RunStep::ask_slurm(int signal, int64_t signal_ms) {
  s_.question.open = true;
  s_.question.signal = signal;
  s_.question.signal_ms = signal_ms;
  s_.question.presumed = false;
  s_.question.term_ms = 0;
  act(AskSlurm{});
}

NoticeReading read_signal(const RunRules& rules, int signal, int64_t signal_ms,
                          const std::optional<slurm_cli::JobInfo>& job, int64_t now_unix_ms, int64_t taken_s) {
  NoticeInput input;
  input.signal = signal;
  input.job = job;
  input.now_ms = now_unix_ms;
  input.signal_ms = signal_ms;
  input.signal_lead_s = rules.signal_lead_s;
  input.kill_wait_s = rules.kill_wait_s;
  input.restart_count = rules.restart_count;
  input.taken_s = taken_s;
  return read_notice(input);
}

// If slurmctld is slow or hangs, dlrun begins what the signal most likely means, as if slurmctld had not answered.
void RunStep::presume() {
  Question& question = s_.question;
  if (!question.open || !s_.alive()) return;
  const int64_t term_ms = question.signal == SIGTERM ? question.signal_ms : question.term_ms;
  if (term_ms != 0 && !s_.stop) {
    if (now_.unix_ms - term_ms < kTermPatienceMs) return;
    StopAsked asked;
    asked.cause = StopCause::kPreemption;
    asked.deadline_ms = term_ms + s_.rules.kill_wait_s * 1000;
    asked.signal = SIGTERM;
    asked.who = stop_cause_name(asked.cause);
    take_stop(std::move(asked), true);
  } else if (term_ms == 0 && !question.presumed && now_.unix_ms - question.signal_ms >= kUsr2PatienceMs) {
    question.presumed = true;
    if (s_.phase == Phase::kRunning) begin_agreement(ProgressPage::kSave);
  }
}

void RunStep::on(const SlurmSaid& said) {
  Question& question = s_.question;
  if (!question.open || s_.finished()) return;
  const NoticeReading reading =
      read_signal(s_.rules, question.signal, question.signal_ms, said.job, now_.unix_ms, s_.offer_taken_s);
  const int64_t term_ms = question.term_ms;
  question.open = false;
  question.answered_ms = now_.awake_ms;
  using Kind = NoticeReading::Kind;
  if (s_.stop && s_.stop->presumed && question.signal == SIGTERM) {
    correct(reading);
  } else if (reading.kind == Kind::kStop) {
    StopAsked asked;
    asked.cause = reading.cause;
    asked.deadline_ms = reading.deadline_ms;
    asked.signal = question.signal;
    asked.who = stop_cause_name(reading.cause);
    if (s_.stop && s_.stop->presumed) s_.stop->deadline_ms = asked.deadline_ms;
    take_stop(std::move(asked), false);
  } else if (reading.kind == Kind::kWatchTimeLimit && reading.deadline_ms) {
    act(WatchTimeLimit{*reading.deadline_ms});
  } else if (reading.kind == Kind::kGrow) {
    s_.offer_taken_s = reading.offer->offered_s;
    act(TakeOffer{*reading.offer});
  }
  if (s_.stop && s_.stop->slurm_ends_ms == 0 && reading.ends)
    s_.stop->slurm_ends_ms = term_ms != 0 ? term_ms : question.signal_ms;
  const bool saves =
      reading.kind == Kind::kSaveNow || (reading.kind == Kind::kWatchTimeLimit && s_.rules.saves_at_own_signal);
  if (saves && !s_.stop && s_.phase == Phase::kRunning && !s_.agreement.open() && !question.presumed) {
    say("a signal that asks for a save: the learners save and go on");
    begin_agreement(ProgressPage::kSave);
  }
  if (term_ms != 0) ask_slurm(SIGTERM, term_ms);
}

// Corrects a stop that began before its cause was known.
void RunStep::correct(const NoticeReading& reading) {
  Stop& stop = *s_.stop;
  stop.presumed = false;
  if (reading.kind != NoticeReading::Kind::kStop && reading.kind != NoticeReading::Kind::kWatchTimeLimit) return;
  stop.deadline_ms = reading.deadline_ms;
  if (stop.hold && goes_back(reading.cause)) return;  // a pause was asked for in the meantime
  stop.cause = reading.cause;
  stop.who = stop_cause_name(reading.cause);
  drop_save(stop.cause);
}

}  // namespace dl::supervise
