// SPDX-License-Identifier: Apache-2.0
// The states of an attempt, from the start of its agents to the end of its learners, and the agreement on a train step.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/supervise/run_step.h"

namespace dl::supervise {
namespace {

// After the grace period of a kill: an agent that reports no end within this time counts as lost.
constexpr int64_t kKillLimitMs = 10000;

}  // namespace

RunActions next(RunState* state, const RunEvent& event, const Moment& now) {
  RunStep step(state, now);
  std::visit([&](const auto& each) { step.on(each); }, event);
  return step.take();
}

const char* phase_name(Phase phase) {
  constexpr const char* kNames[] = {"idle",     "starting",       "running",      "stopping", "ending", "judging",
                                    "sweeping", "checking nodes", "putting back", "settling", "over"};
  return kNames[static_cast<size_t>(phase)];
}

void RunStep::on(const Begin& /*begin*/) {
  if (s_.phase != Phase::kIdle) return;
  s_.is_decided = true;
  s_.decided.what = EndDecision::Action::kRestart;
  carry_out();
}

// Resets all state that belongs to one attempt.
void RunStep::start_attempt() {
  s_.phase = Phase::kStarting;
  s_.stop.reset();
  s_.learners_started = s_.all_started = false;
  s_.gone.clear();
  s_.agreement = StopAgreement{};
  s_.stop_waits = false;
  s_.kill_unix_ms = s_.deaf_after_ms = 0;
  const bool again = std::exchange(s_.decided, Decided{}).again;
  s_.is_decided = s_.nodes_checked = s_.overruled = false;
  act(StartAttempt{again});
}

void RunStep::on(const AgentsReady& ready) {
  if (s_.phase != Phase::kStarting) return;
  s_.phase = Phase::kRunning;
  s_.learners_started = true;
  s_.gone.resize(static_cast<size_t>(ready.deciding));
  act(StartLearners{});
}

void RunStep::on(const AllStarted& /*started*/) {
  if (s_.alive()) s_.all_started = true;
}

void RunStep::on(const SaveDue& /*due*/) {
  if (s_.phase == Phase::kRunning && s_.all_started) begin_agreement(ProgressPage::kSave);
}

void RunStep::begin_agreement(uint32_t kind) {
  if (!s_.running() || s_.agreement.open()) return;
  s_.agreement.begin(++s_.requests, kind, static_cast<int>(s_.gone.size()));
  for (size_t rank = 0; rank < s_.gone.size(); ++rank)
    if (s_.gone[rank]) s_.agreement.gone(static_cast<int>(rank));
  act(SendRequest{s_.requests, kind});
  settle_agreement();
}

void RunStep::on(const Reported& reported) {
  if (!s_.alive()) return;
  s_.agreement.answer(reported.rank, reported.request, reported.answer);
  settle_agreement();
}

void RunStep::on(const Acted& acted) {
  s_.agreement.acted(acted.rank, acted.request);
  follow_waiting_stop();
}

void RunStep::on(const Gone& gone) {
  const auto rank = static_cast<size_t>(gone.rank);
  if (rank >= s_.gone.size() && !s_.learners_started) s_.gone.resize(rank + 1);
  if (rank < s_.gone.size()) s_.gone[rank] = true;
  s_.agreement.gone(gone.rank);
  if (!s_.alive()) return;
  settle_agreement();
  follow_waiting_stop();
  if (gone.deaf_left && s_.stop && s_.running() && !s_.agreement.open()) stop_without_agreement();
}

void RunStep::settle_agreement() {
  const StopDecision decision = s_.agreement.decide();
  if (decision.kind == StopDecision::Kind::kWait) return;
  const uint32_t kind = s_.agreement.kind();
  if (decision.kind == StopDecision::Kind::kDecide)
    act(SendDecide{s_.agreement.request(), kind, decision.step});
  else
    act(SendWithdraw{s_.agreement.request()});
  s_.agreement.decided(decision);
  if (!s_.stop || !s_.running()) return;
  if (decision.kind == StopDecision::Kind::kDecide) {
    if (kind == ProgressPage::kSave) return;  // the stop follows this save
    say(fmt::format("{}: all learners {} at train step {}", s_.stop->who,
                    kind == ProgressPage::kExitWithoutSave ? "stop" : "save and stop", decision.step));
  } else if (decision.finishing) {
    s_.stop_waits = false;
    say(fmt::format("{}: the learners are finishing", s_.stop->who));
  } else {
    stop_without_agreement();
  }
}

// A stop that came while a save was being made had to wait, because a learner that saves at one train step cannot be
// given another.
void RunStep::follow_waiting_stop() {
  if (!s_.stop_waits || s_.agreement.open() || !s_.stop || !s_.running()) return;
  s_.stop_waits = false;
  begin_stop();
}

void RunStep::stop_without_agreement() {
  if (s_.stop->not_saved_reason.empty())
    s_.stop->not_saved_reason = "not saved: no learner uses the checkpoint library";
  s_.stop->killing = true;
  int64_t grace_ms = s_.rules.grace_ms;
  if (s_.stop->deadline_ms)
    grace_ms = std::clamp<int64_t>(*s_.stop->deadline_ms - kPutBackMs - now_.unix_ms, 0, grace_ms);
  say(fmt::format("{}: asking the learners to end, {} s at most", s_.stop->who, (grace_ms + 999) / 1000));
  // A script expects Ctrl-C as SIGINT, which Python raises as KeyboardInterrupt.
  if (s_.stop->signal == SIGINT) act(SignalLearners{SIGINT});
  kill(grace_ms);
}

void RunStep::on(const EndLearners& end) {
  if (!s_.alive()) return;
  // The learners of a failed attempt get no more time than the deadline of a stop leaves them.
  int64_t grace_ms = end.grace_ms;
  if (s_.stop && s_.stop->deadline_ms)
    grace_ms = std::clamp<int64_t>(*s_.stop->deadline_ms - kPutBackMs - now_.unix_ms, 0, grace_ms);
  kill(grace_ms);
}

void RunStep::kill(int64_t grace_ms) {
  if (!s_.alive() || (s_.ending() && grace_ms > 0)) return;
  s_.phase = Phase::kEnding;
  grace_ms = std::min<int64_t>(grace_ms, int64_t{1} << 30);
  s_.kill_unix_ms = now_.unix_ms + grace_ms;
  s_.deaf_after_ms = now_.awake_ms + grace_ms + kKillLimitMs;
  act(KillLearners{static_cast<int>(grace_ms)});
}

void RunStep::on(const AttemptOver& over) {
  if (!s_.alive()) return;
  s_.phase = Phase::kJudging;
  s_.stop_waits = false;
  s_.by_kill = over.by_kill;
  if (must_ask_why(over))
    act(AskWhy{});
  else
    act(JudgeEnd{});
}

void RunStep::on(const Tick& /*tick*/) {
  presume();
  keep_deadline();
  if (s_.ending() && now_.awake_ms > s_.deaf_after_ms) act(GiveUpAll{});
}

// Kills learners whose save or grace period would last beyond the deadline.
void RunStep::keep_deadline() {
  if (!s_.alive() || !s_.stop || !s_.stop->deadline_ms) return;
  if (now_.unix_ms < *s_.stop->deadline_ms - kPutBackMs) return;
  if (s_.ending() && s_.kill_unix_ms <= now_.unix_ms) return;
  if (s_.stop->not_saved_reason.empty()) s_.stop->not_saved_reason = "not saved: the grace period ended first";
  s_.stop->killing = true;
  kill(0);
}

}  // namespace dl::supervise
