// SPDX-License-Identifier: Apache-2.0
// Passes events to the states of the run (run_state.h), and performs the actions that they return.
#include <csignal>
#include <utility>

#include "launcher/supervise/succession.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

// Whether the event may begin a stop. Only then the duration of a save is needed, which means looking through all
// learners.
bool may_begin_stop(const RunState& state, const RunEvent& event) {
  return state.stop_waits || state.question.open || std::holds_alternative<StopAsked>(event) ||
         std::holds_alternative<Signalled>(event);
}

std::string text_of(const std::optional<record::AcceptedStop>& stop) {
  if (!stop) return "";
  return (stop->hold ? "to be paused: " : "to be stopped: ") + stop->who;
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
    const RunActions actions = next(&state_, first, now);
    record_stop();
    for (const RunAction& action : actions) std::visit([this](const auto& each) { perform(each); }, action);
  }
  handling_ = false;
  set_pace();
}

// A stop is recorded before anything is done about it or promised, so that a dlrun that takes over carries it out.
void Supervisor::record_stop() {
  if (options_.guard != nullptr) {
    const OpenSignal open = open_signal(state_);
    options_.guard->unanswered(open.signal, open.unix_ms);
  }
  const std::optional<record::AcceptedStop> accepted = accepted_stop(state_);
  if (accepted == journal_->memory().stop) return;
  const std::string text = text_of(accepted);
  const bool is_news = !text.empty() && text != text_of(journal_->memory().stop);
  journal_->change_memory([&](record::RunMemory* memory) { memory->stop = accepted; });
  if (is_news) journal_->note(text);
}

void Supervisor::perform(const Say& what) {
  voice_.say(what.text);
}

void Supervisor::perform(const KillLearners& kill) {
  pool_->close();
  orders_->perform(kill);
}

void Supervisor::perform(const StartAttempt& start) {
  const NextStart how = std::exchange(next_start_, NextStart::kRestart);
  if (start.again) return start_without_store();
  if (how == NextStart::kFirst) return start_attempt("");
  if (how == NextStart::kTakeOver) return successor_->start();
  restart();
}

void Supervisor::perform(const GiveUpUnheard& /*give_up*/) {
  agents_->kill_all(SIGTERM);
  attempt_.end_unheard();
  check_attempt_over();
}

void Supervisor::perform(const GiveUpAll& /*give_up*/) {
  give_up_learners(
      failure_of_all(attempt_.all_said_hello(), "its agent has sent nothing since the learners were told to end"));
}

}  // namespace dl::supervise
