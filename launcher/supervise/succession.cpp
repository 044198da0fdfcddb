// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/succession.h"

#include <algorithm>
#include <csignal>

#include "launcher/supervise/failure_class.h"

namespace dl::supervise {
namespace {

using What = EndDecision::Action;

struct Row {
  What what;
  const char* text;
};
constexpr Row kDecided[] = {{What::kComplete, "complete"}, {What::kRequeue, "requeue"},
                            {What::kHold, "hold"},         {What::kAlreadyRequeued, "requeued"},
                            {What::kFail, "fail"},         {What::kStopped, "stop"}};

}  // namespace

std::optional<record::AcceptedStop> accepted_stop(const RunState& state) {
  const std::optional<Stop>& stop = state.stop;
  // A job that the loop guard holds is held without a pause.
  const bool held_later = state.hold && state.decided.what != What::kHold;
  const bool hold = held_later || (stop && stop->hold);
  if (!hold && (!stop || stop->presumed)) return std::nullopt;
  // A dlrun that takes over has no companions, and goes on without them.
  if (!hold && stop->cause == StopCause::kOtherNodes) return std::nullopt;
  record::AcceptedStop accepted;
  accepted.cause = stop_cause_key(stop ? stop->cause : StopCause::kPause);
  accepted.who = stop ? stop->who : "dlctl pause";
  if (stop) accepted.signal = stop->signal;
  if (stop) accepted.deadline_ms = stop->deadline_ms.value_or(0);
  accepted.hold = hold;
  return accepted;
}

std::vector<StopAsked> ask_again(const record::AcceptedStop& stop) {
  StopAsked asked;
  asked.cause = parse_stop_cause(stop.cause).value_or(StopCause::kTogether);
  if (stop.deadline_ms != 0) asked.deadline_ms = stop.deadline_ms;
  asked.signal = stop.signal;
  asked.who = stop.who;
  if (!stop.hold || asked.cause == StopCause::kPause) return {asked};
  StopAsked pause = asked;
  pause.cause = StopCause::kPause;
  return {pause, asked};
}

OpenSignal open_signal(const RunState& state) {
  const Question& question = state.question;
  if (!question.open) return {};
  if (question.term_ms != 0) return {SIGTERM, question.term_ms};
  return {question.signal, question.signal_ms};
}

std::string decided_text(EndDecision::Action action) {
  for (const Row& row : kDecided)
    if (row.what == action) return row.text;
  return "";
}

std::optional<EndDecision> decided_before(const record::RunMemory& memory, const std::vector<record::Event>& events,
                                          const std::string& death) {
  const auto* const row = std::find_if(std::begin(kDecided), std::end(kDecided),
                                       [&](const Row& each) { return memory.decided == each.text; });
  const auto end = std::find_if(events.rbegin(), events.rend(), [](const record::Event& event) {
    return !event.learner && event.exit && (record::is_final(event.state) || event.state == record::JobState::kPending);
  });
  if (row == std::end(kDecided) || end == events.rend()) return std::nullopt;
  EndDecision decision;
  decision.action = row->what;
  decision.exit_status = *end->exit;
  decision.reason = end->reason + "; " + death + " meanwhile";
  return decision;
}

bool must_sweep(const std::string& unswept, const std::optional<Stop>& stop, bool can_requeue) {
  // Slurm ends all processes of a job that goes back into the queue, and a deadline may be near.
  const bool by_slurm = stop && stop->deadline_ms && can_requeue;
  return !unswept.empty() && !by_slurm;
}

std::string unanswered_failure(const record::RunMemory& memory, const std::vector<record::Event>& events) {
  if (!memory.decided.empty() || !memory.lost.empty()) return "";
  const int newest = events.empty() ? 0 : events.back().attempt;
  const auto failed = std::find_if(events.begin(), events.end(), [&](const record::Event& event) {
    return event.attempt == newest && event.learner && event.state == record::JobState::kFailed;
  });
  return failed == events.end() || failed->failure == kNoLibuv ? "" : failed->failure;
}

}  // namespace dl::supervise
