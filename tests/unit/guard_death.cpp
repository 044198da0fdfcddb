// SPDX-License-Identifier: Apache-2.0
// What the end of a dlrun means to its guard, and how often another one takes its place.
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/guard/death.h"
#include "launcher/supervise/restart_policy.h"

namespace dl::guard {
namespace {

// As waitpid() gives them.
int exited(int code) {
  return code << 8;
}
int killed(int signal) {
  return signal;
}

TEST(GuardDeath, WhatIsHandedOnAndWhatIsADeath) {
  struct Row {
    ChildEnd end;
    bool died;
    int status;
    const char* text;
  };
  const Row rows[] = {
      {{exited(0), false, false}, false, 0, ""},
      {{exited(7), false, false}, false, 7, ""},
      {{exited(70), false, false}, false, 70, ""},  // a learner's own code
      {{exited(70), true, false}, true, 70, "dlrun ended by a fault of its own"},
      {{exited(70), true, true}, false, 70, ""},
      {{killed(SIGKILL), false, false}, true, 137, "dlrun was killed by signal 9 (SIGKILL)"},
      {{killed(SIGKILL), false, true}, false, 137, ""},
      {{killed(SIGSEGV), false, false}, true, 139, "dlrun was killed by signal 11 (SIGSEGV)"},
      {{killed(SIGSEGV) | 0x80, false, false}, true, 139, "dlrun was killed by signal 11 (SIGSEGV)"},  // with a core
      {{killed(SIGABRT), false, false}, true, 134, "dlrun was killed by signal 6 (SIGABRT)"},
      {{killed(SIGBUS), false, false}, true, 135, "dlrun was killed by signal 7 (SIGBUS)"},
      {{killed(SIGTERM), false, false}, false, 143, ""},
      {{killed(SIGINT), false, true}, false, 130, ""},
      {{killed(SIGHUP), false, false}, false, 129, ""},
      {{killed(SIGUSR2), false, false}, false, 140, ""},
  };
  for (const Row& row : rows) {
    const Verdict verdict = judge(row.end);
    EXPECT_EQ(verdict.died, row.died) << row.end.wait_status;
    EXPECT_EQ(verdict.exit_status, row.status) << row.end.wait_status;
    EXPECT_EQ(verdict.text, row.text);
  }
}

TEST(GuardDeath, ThreeNewStartsWithinAnHour) {
  Budget budget;
  EXPECT_TRUE(budget.take(0));
  EXPECT_TRUE(budget.take(1));
  EXPECT_TRUE(budget.take(kStartsWithinMs / 2));
  EXPECT_FALSE(budget.take(kStartsWithinMs - 1));
  EXPECT_TRUE(budget.take(kStartsWithinMs));
  EXPECT_TRUE(budget.take(kStartsWithinMs + 1));
  EXPECT_FALSE(budget.take(kStartsWithinMs + 2));
}

supervise::Failure death() {
  supervise::Failure failure;
  failure.kind = supervise::Failure::Kind::kLauncher;
  failure.text = "dlrun was killed by signal 9 (SIGKILL)";
  failure.exit = 137;
  return failure;
}

TEST(GuardDeath, TheAnswerOfItsSuccessor) {
  using Action = supervise::EndDecision::Action;
  struct Row {
    bool last, checkpoint;
    int restarts, without_progress;
    bool can_requeue;
    Action action;
    const char* reason;
  };
  const Row rows[] = {
      {false, true, 0, 0, true, Action::kRestart, "dlrun was killed by signal 9 (SIGKILL)"},
      {false, true, 0, 1, false, Action::kRestart, "dlrun was killed by signal 9 (SIGKILL)"},
      {false, false, 1, 5, false, Action::kRestart, "dlrun was killed by signal 9 (SIGKILL)"},
      // It would begin from its start, which nobody has allowed.
      {false, false, 0, 0, true, Action::kFail, "dlrun was killed by signal 9 (SIGKILL)"},
      {true, true, 9, 0, true, Action::kFail,
       "dlrun was killed by signal 9 (SIGKILL); dlrun may be started again 3 times within an hour"},
      {false, true, 9, 2, true, Action::kHold,
       "held: 2 attempts in a row saved no new train step; last: dlrun was killed by signal 9 (SIGKILL)"},
      {false, true, 9, 2, false, Action::kFail,
       "held: 2 attempts in a row saved no new train step; last: dlrun was killed by signal 9 (SIGKILL)"},
  };
  for (const Row& row : rows) {
    supervise::RestartLimits limits;
    limits.measurable = row.checkpoint;
    limits.restarts_max = row.restarts;
    limits.without_progress = row.without_progress;
    limits.can_requeue = row.can_requeue;
    const supervise::EndDecision decision = supervise::decide_after_death(death(), row.last, limits);
    EXPECT_EQ(decision.action, row.action) << row.reason;
    EXPECT_EQ(decision.reason, row.reason);
    EXPECT_EQ(decision.exit_status, 137);
  }
}

TEST(GuardDeath, ASuccessorWithTooFewNodesLeftHasTheJobPutBack) {
  using Action = supervise::EndDecision::Action;
  supervise::RestartLimits limits;
  limits.measurable = limits.can_requeue = limits.node_lost = true;
  EXPECT_EQ(supervise::decide_after_death(death(), false, limits).action, Action::kRequeue);
  limits.can_requeue = false;
  EXPECT_EQ(supervise::decide_after_death(death(), false, limits).action, Action::kRestart);
}

// A stop that was accepted is carried out in place of the restart, also where the job could not begin again.
TEST(GuardDeath, ASuccessorAnswersNotTheDeathButTheStopThatWasAccepted) {
  supervise::RestartLimits limits;
  limits.stop_asked = limits.can_requeue = true;
  for (const bool last : {false, true})
    for (const int without_progress : {0, 5})
      for (const bool checkpoint : {false, true}) {
        limits.without_progress = without_progress;
        limits.measurable = checkpoint;
        EXPECT_EQ(supervise::decide_after_death(death(), last, limits).action,
                  supervise::EndDecision::Action::kRestart);
      }
}

TEST(GuardDeath, ItsClassIsOurs) {
  const supervise::FailureClass its = supervise::classify(death(), {});
  EXPECT_EQ(supervise::format_class(its), "launcher (S105, ours)");
  EXPECT_EQ(its.budget, kMostStarts);
}

}  // namespace
}  // namespace dl::guard
