// SPDX-License-Identifier: Apache-2.0
// What the end of a learner counts as.
#include "launcher/supervise/learner_end.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "common/contract/exit_codes.h"

namespace dl::supervise {
namespace {

using namespace protocol;
using Kind = LearnerEnd::Kind;

Exited with_code(int code, bool asked = false) {
  Exited exited;
  exited.exit = code;
  exited.asked = asked;
  return exited;
}

Exited by_signal(int signal, bool asked = false) {
  Exited exited = with_code(-1, asked);
  exited.signal = signal;
  return exited;
}

TEST(LearnerEnd, WithoutAnErrorItIsWell) {
  const LearnerEnd end = judge_exit(with_code(0), {});
  EXPECT_EQ(end.kind, Kind::kWell);
  EXPECT_EQ(end.exit, 0);
  BeforeTheEnd known;
  known.stop = true;
  EXPECT_EQ(judge_exit(with_code(0), known).kind, Kind::kWell) << "it was done before it was asked";
}

TEST(LearnerEnd, AFailureHasAllThatTheAgentHasReported) {
  Exited exited = with_code(3);
  exited.exception = "KeyError: 'lr'";
  exited.last_lines = {"the last line"};
  const LearnerEnd end = judge_exit(exited, {});
  EXPECT_EQ(end.kind, Kind::kFailed);
  EXPECT_EQ(end.failure.kind, Failure::Kind::kExit);
  EXPECT_EQ(end.failure.exit, 3);
  EXPECT_EQ(end.failure.exception, "KeyError: 'lr'");
  EXPECT_EQ(end.failure.last_lines, exited.last_lines);
  EXPECT_FALSE(end.failure.asked);

  Exited killed = by_signal(SIGKILL, /*asked=*/true);
  killed.memory = true;
  const LearnerEnd after = judge_exit(killed, {});
  EXPECT_EQ(after.kind, Kind::kFailed);
  EXPECT_EQ(after.failure.kind, Failure::Kind::kSignal);
  EXPECT_EQ(after.failure.signal, SIGKILL);
  EXPECT_TRUE(after.failure.memory);
  EXPECT_TRUE(after.failure.asked);
}

TEST(LearnerEnd, WhatCouldNotBeStartedFailsAsInAShell) {
  Exited exited = with_code(-1);
  exited.error = "train.py: No such file or directory";
  LearnerEnd end = judge_exit(exited, {});
  EXPECT_EQ(end.kind, Kind::kFailed);
  EXPECT_EQ(end.failure.kind, Failure::Kind::kNotStarted);
  EXPECT_EQ(end.failure.exit, kExitNotFound);
  EXPECT_EQ(end.failure.text, exited.error);
  exited.error = "train.py: Permission denied";
  EXPECT_EQ(judge_exit(exited, {}).failure.exit, kExitNotExecutable);
}

TEST(LearnerEnd, TheCodesOfASaveAreASuccessOnlyIfAStopWasAskedFor) {
  for (const int code : {kExitSaved, kExitNotSaved}) {
    BeforeTheEnd known;
    EXPECT_EQ(judge_exit(with_code(code), known).kind, Kind::kFailed);
    known.stop = true;
    const LearnerEnd end = judge_exit(with_code(code), known);
    EXPECT_EQ(end.kind, Kind::kStopped);
    EXPECT_EQ(end.exit, code);
  }
  BeforeTheEnd known;
  known.stop = true;
  EXPECT_EQ(judge_exit(with_code(1), known).kind, Kind::kFailed);
  EXPECT_EQ(judge_exit(by_signal(SIGTERM, /*asked=*/true), known).kind, Kind::kFailed);
}

TEST(LearnerEnd, OneThatHasServedIsEndedByDlrunAndThatIsNoFailure) {
  BeforeTheEnd known;
  known.served = true;
  for (const Exited& exited : {by_signal(SIGTERM, /*asked=*/true), with_code(1, /*asked=*/true)}) {
    const LearnerEnd end = judge_exit(exited, known);
    EXPECT_EQ(end.kind, Kind::kWell);
    EXPECT_EQ(end.exit, 0);
  }
  EXPECT_EQ(judge_exit(by_signal(SIGSEGV), known).kind, Kind::kFailed) << "it had not been asked yet";
}

TEST(LearnerEnd, AfterMpiAbortNoExitCodeIsASuccess) {
  BeforeTheEnd known;
  known.aborted = true;
  EXPECT_EQ(judge_exit(with_code(0), known).kind, Kind::kFailed);
  known.stop = true;
  EXPECT_EQ(judge_exit(with_code(kExitSaved), known).kind, Kind::kFailed);
}

TEST(LearnerEnd, AfterAHangOnlyTheHangCounts) {
  BeforeTheEnd known;
  known.hung = true;
  EXPECT_EQ(judge_exit(by_signal(SIGKILL, /*asked=*/true), known).kind, Kind::kBlamed);
  EXPECT_EQ(judge_exit(with_code(0), known).kind, Kind::kBlamed);
}

}  // namespace
}  // namespace dl::supervise
