// SPDX-License-Identifier: Apache-2.0
// Other dlruns of the same job: a stop is passed on to all of them, and the job is put back once, when all have saved.
#include <fmt/core.h>

#include "launcher/supervise/repeat.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

constexpr uint64_t kLookMs = 20;
constexpr int64_t kLastMoment = 700;       // ms before the deadline, when Slurm kills all runs
constexpr int64_t kMostToArriveMs = 5000;  // without success in writing the book; then this run asks alone

// The causes of a stop that a run passes on to the others through the book. When Slurm ends the job, each run learns of
// it from Slurm, so those causes are not passed on.
bool is_shared(StopCause cause) {
  return cause == StopCause::kPause || cause == StopCause::kPreemption || cause == StopCause::kYield ||
         cause == StopCause::kResize || cause == StopCause::kTimeLimit || cause == StopCause::kTogether;
}

}  // namespace

// Called each tick.
void Supervisor::look_at_siblings() {
  if (!options_.siblings || state_.finished()) return;
  if (state_.stop && told_siblings_ != state_.stop->cause) {
    const StopCause cause = state_.stop->cause;
    if (!is_shared(cause) || ask_siblings(stop_cause_key(cause), state_.stop->who)) told_siblings_ = cause;
  }
  const auto asked = options_.siblings->look();
  if (!asked) return;
  StopAsked stop;
  stop.cause = parse_stop_cause(asked->cause).value_or(StopCause::kTogether);
  if (asked->deadline_ms != 0) stop.deadline_ms = asked->deadline_ms;
  stop.who = asked->who;
  handle(stop);
}

bool Supervisor::ask_siblings(const std::string& cause, const std::string& who) {
  runs::BookedStop stop{cause, who, 0};
  if (state_.stop && state_.stop->deadline_ms) stop.deadline_ms = *state_.stop->deadline_ms;
  return options_.siblings->ask_all(stop);
}

// The last run that is ready asks Slurm to requeue the job, which kills all of them. The request is queued behind the
// update of the comment, so the comment is set before.
void Supervisor::put_back_together(bool hold) {
  const auto ask = [this](bool held, const std::string& excluded) {
    slurm_->put_back(held, excluded, [this](const Status& outcome) {
      if (options_.siblings && !options_.siblings->put_back(outcome))
        repeat(&loop_, kLookMs,
               [this, outcome] { return state_.phase == Phase::kOver || options_.siblings->put_back(outcome); });
      if (!outcome) put_back_error_ = outcome.error().text;
      handle(BackInQueue{outcome.has_value()});
    });
  };
  if (!options_.siblings) return ask(hold, memory_.excluded);
  repeat(&loop_, kLookMs,
         [this, ask, hold, asked = state_.stop.has_value(), arrived = false, since = awake_ms()]() mutable {
           const bool late =
               (state_.stop && state_.stop->deadline_ms && unix_ms() > *state_.stop->deadline_ms - kLastMoment) ||
               (!arrived && awake_ms() - since > kMostToArriveMs);
           if (!asked) asked = ask_siblings(hold ? runs::kPauseCause : runs::kTogetherCause, decision_.reason);
           if (asked && !arrived) arrived = options_.siblings->arrive(hold, memory_.excluded);
           if (!arrived && !late) return state_.phase == Phase::kOver;
           const runs::Siblings::Turn turn = options_.siblings->turn(late);
           switch (turn.kind) {
             case runs::Siblings::Turn::Kind::kWait:
               return state_.phase == Phase::kOver;
             case runs::Siblings::Turn::Kind::kMine:
               ask(turn.hold || state_.hold, turn.excluded);
               return true;
             case runs::Siblings::Turn::Kind::kRefused:
               put_back_error_ = turn.refused;
               break;
             case runs::Siblings::Turn::Kind::kDone:
               break;
           }
           handle(BackInQueue{turn.kind == runs::Siblings::Turn::Kind::kDone});
           return true;
         });
}

// Only one of the runs sets the begin time.
bool Supervisor::keeps_begin_time() {
  return !options_.siblings || options_.siblings->keeps_begin_time();
}

}  // namespace dl::supervise
