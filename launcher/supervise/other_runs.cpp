// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/other_runs.h"

#include <utility>

#include "common/base/awake_clock.h"
#include "launcher/supervise/repeat.h"

namespace dl::supervise {
namespace {

constexpr uint64_t kBackLookMs = 20;
constexpr int64_t kLastMoment = 700;       // ms before the deadline, when Slurm kills all runs
constexpr int64_t kMostToArriveMs = 5000;  // without success in writing the book; then this run asks alone

// The causes of a stop that a run passes on to the others through the book. When Slurm ends the job, each run learns of
// it from Slurm, so those causes are not passed on.
bool is_shared(StopCause cause) {
  return cause == StopCause::kPause || cause == StopCause::kPreemption || cause == StopCause::kYield ||
         cause == StopCause::kResize || cause == StopCause::kTimeLimit || cause == StopCause::kTogether;
}

}  // namespace

std::optional<StopAsked> OtherRuns::look() {
  if (!siblings_ || state_.finished()) return std::nullopt;
  if (state_.stop && told_ != state_.stop->cause) {
    const StopCause cause = state_.stop->cause;
    if (!is_shared(cause) || ask_all(stop_cause_key(cause), state_.stop->who)) told_ = cause;
  }
  const auto asked = siblings_->look();
  if (!asked) return std::nullopt;
  StopAsked stop;
  stop.cause = parse_stop_cause(asked->cause).value_or(StopCause::kTogether);
  if (asked->deadline_ms != 0) stop.deadline_ms = asked->deadline_ms;
  stop.who = asked->who;
  return stop;
}

bool OtherRuns::ask_all(const std::string& cause, const std::string& who) {
  runs::BookedStop stop{cause, who, 0};
  if (state_.stop && state_.stop->deadline_ms) stop.deadline_ms = *state_.stop->deadline_ms;
  return siblings_->ask_all(stop);
}

// The request is queued behind the update of the comment, so the comment is set before.
void OtherRuns::ask_slurm(bool hold, const std::string& excluded, const std::function<void(const Status&)>& then) {
  slurm_->put_back(hold, excluded, [this, then](const Status& outcome) {
    if (siblings_ && !siblings_->put_back(outcome))
      repeat(loop_, kBackLookMs, [this, outcome] { return is_over() || siblings_->put_back(outcome); });
    then(outcome);
  });
}

void OtherRuns::put_back(bool hold, std::string excluded, std::string why, std::function<void(const Status&)> then) {
  if (!siblings_) return ask_slurm(hold, excluded, then);
  repeat(loop_, kBackLookMs,
         [this, hold, excluded = std::move(excluded), why = std::move(why), then = std::move(then),
          asked = state_.stop.has_value(), arrived = false, since = awake_ms()]() mutable {
           const std::optional<Stop>& stop = state_.stop;
           const bool late = (stop && stop->deadline_ms && unix_ms() > *stop->deadline_ms - kLastMoment) ||
                             (!arrived && awake_ms() - since > kMostToArriveMs);
           if (!asked) asked = ask_all(hold ? runs::kPauseCause : runs::kTogetherCause, why);
           if (asked && !arrived) arrived = siblings_->arrive(hold, excluded);
           if (!arrived && !late) return is_over();
           const runs::Siblings::Turn turn = siblings_->turn(late);
           switch (turn.kind) {
             case runs::Siblings::Turn::Kind::kWait:
               return is_over();
             case runs::Siblings::Turn::Kind::kMine:
               ask_slurm(turn.hold || state_.hold, turn.excluded, then);
               break;
             case runs::Siblings::Turn::Kind::kRefused:
               then(Error{Errc::kConflict, turn.refused});
               break;
             case runs::Siblings::Turn::Kind::kDone:
               then({});
               break;
           }
           return true;
         });
}

}  // namespace dl::supervise
