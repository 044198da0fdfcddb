// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/restart_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "common/base/count.h"
#include "common/contract/exit_codes.h"
#include "launcher/guard/death.h"

namespace dl::supervise {
namespace {

using record::JobState;
using Action = EndDecision::Action;

std::string guard_reason(const RestartLimits& limits, const std::string& why) {
  return fmt::format("held: {} in a row saved no new train step; last: {}",
                     count_text(limits.without_progress, "attempt"), why);
}

bool guard_trips(const RestartLimits& limits) {
  return limits.measurable && limits.loop_guard > 0 && limits.without_progress >= limits.loop_guard;
}

EndDecision end_of_stop(const AttemptEnd& end, const RestartLimits& limits) {
  EndDecision decision;
  decision.exit_status = end.all_saved ? kExitSaved : kExitNotSaved;
  std::string saved = end.all_saved && end.saved_step >= 0
                          ? fmt::format("saved at train step {}", end.saved_step)
                          : (end.not_saved_reason.empty() ? "not saved" : end.not_saved_reason);
  decision.reason = fmt::format("{}: {}", stop_cause_name(*end.stop), saved);
  switch (*end.stop) {
    case StopCause::kPause:
      decision.action = limits.can_requeue ? Action::kHold : Action::kStopped;
      break;
    case StopCause::kSlurmRequeue:
      decision.action = Action::kAlreadyRequeued;
      break;
    case StopCause::kOtherNodes:
      // Not saved, it goes on from the last checkpoint.
      decision.action = Action::kRestart;
      decision.other_nodes = true;
      if (!limits.node_lost) break;
      decision.without_lost = limits.rest_suffices;
      if (!limits.rest_suffices) decision.action = limits.can_requeue ? Action::kRequeue : Action::kFail;
      break;
    case StopCause::kInterrupt:
      decision.action = Action::kStopped;
      break;
    case StopCause::kCancelled:
    case StopCause::kLeaseLost:
      decision.action = Action::kFail;
      break;
    case StopCause::kYield:
    case StopCause::kResize:
    case StopCause::kTogether:
      // The loop guard does not apply: this run cannot help how soon GPUs are taken back or another run stops.
      decision.action = limits.can_requeue ? Action::kRequeue : Action::kStopped;
      break;
    case StopCause::kPreemption:
    case StopCause::kTimeLimit:
      if (!limits.can_requeue) {
        decision.action = Action::kStopped;
      } else if (*end.stop == StopCause::kTimeLimit && !limits.measurable) {
        // Without checkpoints the job would start from the beginning and reach the same limit again.
        decision.action = Action::kFail;
        decision.reason += ", and without --dl-checkpoint it would start from the beginning";
      } else if (guard_trips(limits)) {
        decision.action = Action::kHold;
        decision.reason = guard_reason(limits, decision.reason);
      } else {
        decision.action = Action::kRequeue;
      }
      break;
  }
  return decision;
}

// Puts the job back into the queue, or holds it there if the loop guard trips.
EndDecision put_back(EndDecision decision, const RestartLimits& limits) {
  decision.action = guard_trips(limits) ? Action::kHold : Action::kRequeue;
  if (decision.action == Action::kHold) decision.reason = guard_reason(limits, decision.reason);
  return decision;
}

// Restarts on the remaining nodes. A job without checkpoints would start from the beginning, so it does that only if
// restarts are allowed at all. Such restarts are not limited in number, since each of them costs a node.
EndDecision go_on_without_lost(EndDecision decision, const RestartLimits& limits) {
  if (guard_trips(limits)) {
    decision.action = limits.can_requeue ? Action::kHold : Action::kFail;
    decision.reason = guard_reason(limits, decision.reason);
    return decision;
  }
  decision.without_lost = limits.measurable || limits.restarts_max > 0;
  decision.action = decision.without_lost ? Action::kRestart : Action::kFail;
  return decision;
}

}  // namespace

bool is_kill(const Failure& failure) {
  if (failure.kind == Failure::Kind::kSignal) return failure.signal == SIGKILL && !failure.memory;
  return failure.kind == Failure::Kind::kAgentLost;
}

bool is_slurms_kill(const Failure& failure, int64_t failed_ms, int64_t slurm_ends_ms) {
  return slurm_ends_ms != 0 && failed_ms >= slurm_ends_ms && is_kill(failure);
}

std::string killed_before_saved(int64_t after_ms) {
  return fmt::format(
      "not saved: killed {} s after Slurm began to end the job, before its save had ended; save more often "
      "(every= of --dl-checkpoint), or have KillWait in slurm.conf raised",
      (after_ms + 500) / 1000);
}

EndDecision decide_after_death(const Failure& death, bool last, const RestartLimits& limits) {
  EndDecision decision;
  decision.exit_status = exit_status(death);
  decision.reason = describe(death);
  if (limits.stop_asked) {
    decision.action = Action::kRestart;
  } else if (last) {
    decision.reason += fmt::format("; dlrun may be started again {} times within an hour", guard::kMostStarts);
  } else if (guard_trips(limits)) {
    decision.action = limits.can_requeue ? Action::kHold : Action::kFail;
    decision.reason = guard_reason(limits, decision.reason);
  } else if (limits.node_lost && limits.can_requeue && limits.measurable) {
    decision.action = Action::kRequeue;
  } else if (limits.measurable || limits.restarts_max > 0) {
    decision.action = Action::kRestart;
  }
  return decision;
}

int attempts_without_progress(const std::vector<record::Event>& events) {
  struct Past {
    int64_t step = -1;
    bool ran = false;
  };
  std::vector<std::pair<int, Past>> attempts;  // in the order of the events
  size_t counted_from = 0;
  for (const record::Event& event : events) {
    if (event.attempt <= 0) continue;
    if (attempts.empty() || attempts.back().first != event.attempt) attempts.push_back({event.attempt, {}});
    Past& attempt = attempts.back().second;
    if (event.step) attempt.step = std::max(attempt.step, *event.step);
    if (event.state == JobState::kProcessing) attempt.ran = true;
    if (!event.learner && event.state == JobState::kHalted) counted_from = attempts.size();
  }
  int count = 0;
  int64_t best = -1;
  for (size_t i = 0; i < attempts.size(); ++i) {
    const Past& attempt = attempts[i].second;
    bool progress = attempt.step > best;
    best = std::max(best, attempt.step);
    if (i < counted_from || progress)
      count = 0;
    else if (attempt.ran)
      ++count;
  }
  return count;
}

EndDecision decide_end(const AttemptEnd& end, const RestartLimits& limits) {
  if (end.all_finished) return EndDecision{Action::kComplete, 0, "all learners finished"};
  // A learner that failed by itself counts as a failure, even if a stop was asked for in the meantime. One that Slurm's
  // SIGTERM ended before dlrun could stop it has not failed.
  bool by_sigterm = end.failure && end.failure->kind == Failure::Kind::kSignal && end.failure->signal == SIGTERM;
  if (end.stop && (!end.failure || by_sigterm || end.killed_by_slurm)) {
    EndDecision decision = end_of_stop(end, limits);
    decision.by_slurm = end.killed_by_slurm;
    return decision;
  }
  if (!end.failure)
    return EndDecision{Action::kFail, kExitInternal,
                       "the learners ended, and dlrun does not know why (a fault of dlrun)"};

  EndDecision decision;
  decision.exit_status = exit_status(*end.failure);
  decision.reason = describe(*end.failure);
  const FailureClass& its = end.failure_class;
  // Where no learner has run, there is nothing that a return to the queue could lose.
  const bool no_data = end.failure->kind == Failure::Kind::kData;
  const bool may_go_back = limits.can_requeue && (limits.measurable || no_data);
  // The user cannot help a lost node: the job goes on on the rest of its allocation, or Slurm finds it another node.
  // A run that was only to go on on other nodes is not being stopped.
  const bool stays = !end.stop || *end.stop == StopCause::kOtherNodes;
  if (limits.node_lost && limits.rest_suffices && stays) return go_on_without_lost(std::move(decision), limits);
  if (limits.node_lost && may_go_back) return put_back(decision, limits);
  if (its.answer == Answer::kFail) {
    decision.action = Action::kFail;
    return decision;
  }
  if (limits.same_failure >= 2) {
    decision.action = Action::kFail;
    decision.reason += fmt::format("; the same failure at train step {} in {} attempts: not started again",
                                   end.failure->step, limits.same_failure);
    return decision;
  }
  if (its.answer == Answer::kHold && stays) {
    // Somebody has to remove the cause, so the reason names the class: the exit code alone does not tell what to do.
    decision.reason += "; class " + format_class(its);
    decision.action = limits.can_requeue ? Action::kHold : Action::kFail;
    return decision;
  }
  const bool elsewhere = its.answer == Answer::kExclude || its.answer == Answer::kRequeue;
  // A lost agent on a node that answers may be the user's mistake (a kill), so the job first restarts on the same
  // nodes.
  if (elsewhere && may_go_back && stays && end.failure->kind != Failure::Kind::kAgentLost) {
    decision.exclude_node = its.answer == Answer::kExclude;
    if (no_data && limits.without_data > kMostWithoutData) {
      decision.action = Action::kHold;
      decision.reason = fmt::format("held: {} in a row could not fetch the data; last: {}",
                                    count_text(limits.without_data, "attempt"), decision.reason);
      return decision;
    }
    return put_back(decision, limits);
  }
  bool restartable = end.failure->kind != Failure::Kind::kNotStarted && stays;
  if (!restartable || limits.restarts_max == 0) {
    decision.action = Action::kFail;
  } else if (its.budget >= 0 && limits.class_restarts >= its.budget) {
    decision.action = Action::kFail;
    decision.reason += fmt::format("; at most {} restart{} after failures of class {}", its.budget,
                                   its.budget == 1 ? "" : "s", its.name);
  } else if (guard_trips(limits)) {
    decision.action = limits.can_requeue ? Action::kHold : Action::kFail;
    decision.reason = guard_reason(limits, decision.reason);
  } else if (limits.restarts_done >= limits.restarts_max || limits.node_lost) {
    decision.action = Action::kFail;
    if (limits.restarts_done > 0)
      decision.reason +=
          fmt::format(", after {} restart{}", limits.restarts_done, limits.restarts_done == 1 ? "" : "s");
  } else {
    decision.action = Action::kRestart;
  }
  return decision;
}

}  // namespace dl::supervise
