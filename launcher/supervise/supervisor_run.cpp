// SPDX-License-Identifier: Apache-2.0
// Passes events to the states of the run (run_state.h), and performs the actions that they return.
#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

// Whether the event may begin a stop. Only then the duration of a save is needed, which means looking through all
// learners.
bool may_begin_stop(const RunState& state, const RunEvent& event) {
  return state.stop_waits || state.question.open || std::holds_alternative<StopAsked>(event) ||
         std::holds_alternative<Signalled>(event);
}

}  // namespace

// An event that an action causes is handled after the remaining actions of the present event.
void Supervisor::handle(RunEvent event) {
  events_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!events_.empty()) {
    const RunEvent first = std::move(events_.front());
    events_.pop_front();
    Moment now{unix_ms(), awake_ms(), {}};
    if (may_begin_stop(state_, first)) now.times = attempt_.save_times();
    for (const RunAction& action : next(&state_, first, now))
      std::visit([this](const auto& each) { perform(each); }, action);
  }
  handling_ = false;
}

void Supervisor::perform(const Say& what) {
  say(what.text);
}

void Supervisor::perform(const StartAttempt& start) {
  const NextStart how = std::exchange(next_start_, NextStart::kRestart);
  if (start.again) return start_without_store();
  if (how == NextStart::kFirst) return start_attempt("");
  if (how == NextStart::kTakeOver) return start_in_place_of_dead();
  restart();
}

void Supervisor::perform(const GiveUpUnheard& /*give_up*/) {
  agents_->kill_all(SIGTERM);
  for (Learner& learner : attempt_.learners) learner.ended = learner.ended || !learner.said_hello;
  check_attempt_over();
}

void Supervisor::perform(const GiveUpAll& /*give_up*/) {
  const bool all_hello = attempt_.all_said_hello();
  Failure failure;
  failure.kind = all_hello ? Failure::Kind::kAgentLost : Failure::Kind::kNotStarted;
  failure.text = "its agent has sent nothing since the learners were told to end";
  attempt_.agent_lost = true;
  give_up_learners(failure, /*only_silent=*/false);
}

}  // namespace dl::supervise
