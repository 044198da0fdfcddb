// SPDX-License-Identifier: Apache-2.0
// What a dlrun that takes the place of one that died does of what that one had accepted, decided, or not understood
// yet.
#include "launcher/supervise/succession.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dl::supervise {
namespace {

using What = EndDecision::Action;
constexpr int64_t kSignal = 1'789'000'000'000;

// A job of one learner under Slurm, whose dlrun may be killed at any moment.
class SuccessionTest : public testing::Test {
 protected:
  SuccessionTest() {
    state_.rules.under_slurm = true;
    now_.unix_ms = kSignal;
    now_.awake_ms = 1'000'000;
  }
  void give(const RunEvent& event) {
    for (RunAction& action : next(&state_, event, now_)) done_.push_back(std::move(action));
  }
  void run() {
    give(Begin{});
    give(AgentsReady{1});
    give(AllStarted{});
  }
  // Kills dlrun, and has another take over that would restart the learners.
  void die() {
    const std::optional<record::AcceptedStop> stop = accepted_stop(state_);
    state_ = RunState{};
    state_.rules.under_slurm = true;
    done_.clear();
    if (stop)
      for (const StopAsked& asked : ask_again(*stop)) give(asked);
    give(Decided{What::kRestart});
  }
  template <typename T>
  bool did() const {
    for (const RunAction& action : done_)
      if (std::holds_alternative<T>(action)) return true;
    return false;
  }
  RunState state_;
  Moment now_;
  RunActions done_;
};

TEST_F(SuccessionTest, EveryStopThatWasAcceptedIsCarriedOutByTheDeadlineThatItHad) {
  for (const StopCause cause : {StopCause::kPreemption, StopCause::kYield, StopCause::kResize, StopCause::kTimeLimit,
                                StopCause::kTogether, StopCause::kPause, StopCause::kInterrupt, StopCause::kCancelled,
                                StopCause::kSlurmRequeue, StopCause::kLeaseLost}) {
    EXPECT_EQ(parse_stop_cause(stop_cause_key(cause)), cause);
    state_ = RunState{};
    state_.rules.under_slurm = true;
    run();
    give(StopAsked{cause, kSignal + 60'000, SIGUSR2, "somebody", 0});
    ASSERT_TRUE(accepted_stop(state_)) << stop_cause_name(cause);
    now_.unix_ms += 20'000;
    die();
    EXPECT_FALSE(did<StartAttempt>()) << stop_cause_name(cause);
    EXPECT_TRUE(did<JudgeStopped>()) << stop_cause_name(cause);
    ASSERT_TRUE(state_.stop);
    EXPECT_EQ(state_.stop->cause, cause);
    EXPECT_EQ(state_.stop->deadline_ms, kSignal + 60'000) << "it counts from the signal";
    EXPECT_EQ(state_.stop->who, "somebody");
    EXPECT_EQ(state_.stop->signal, SIGUSR2);
    EXPECT_EQ(state_.stop->hold, cause == StopCause::kPause);
    now_.unix_ms = kSignal;
  }
  state_ = RunState{};
  run();
  EXPECT_FALSE(accepted_stop(state_));
  die();
  EXPECT_TRUE(did<StartAttempt>());
}

TEST_F(SuccessionTest, APauseThatWasPromisedLastHoldsAJobThatWasGoingBack) {
  run();
  give(StopAsked{StopCause::kYield, kSignal + 60'000, SIGUSR2, "lent GPUs are taken back", 0});
  give(Gone{0});
  give(AttemptOver{});
  give(Decided{What::kRequeue});
  ASSERT_EQ(state_.phase, Phase::kPuttingBack);
  give(StopAsked{StopCause::kPause, {}, 0, "dlctl pause", 7});
  die();
  ASSERT_TRUE(state_.stop);
  EXPECT_TRUE(state_.stop->hold);
  EXPECT_EQ(state_.stop->cause, StopCause::kPause);
  EXPECT_EQ(state_.stop->deadline_ms, kSignal + 60'000);
  // One that Slurm puts back by itself stays so.
  const record::AcceptedStop stop{"requeue", "requeued by Slurm", SIGTERM, 0, true};
  state_ = RunState{};
  for (const StopAsked& asked : ask_again(stop)) give(asked);
  EXPECT_EQ(state_.stop->cause, StopCause::kSlurmRequeue);
  EXPECT_TRUE(state_.stop->hold);
}

TEST_F(SuccessionTest, AJobThatTheLoopGuardHoldsWasNotPaused) {
  run();
  give(Gone{0});
  give(AttemptOver{});
  give(Decided{What::kHold});
  EXPECT_TRUE(state_.hold);
  EXPECT_FALSE(accepted_stop(state_));
}

TEST_F(SuccessionTest, OfAStopThatWasOnlyPresumedTheSignalIsHandedOver) {
  run();
  EXPECT_EQ(open_signal(state_).signal, 0);
  give(Signalled{SIGUSR2});
  EXPECT_EQ(open_signal(state_).signal, SIGUSR2);
  now_.unix_ms += 100;
  give(Signalled{SIGTERM});
  EXPECT_EQ(open_signal(state_).signal, SIGTERM) << "the stronger one";
  EXPECT_EQ(open_signal(state_).unix_ms, kSignal + 100);
  now_.unix_ms += 900;
  give(Tick{});
  ASSERT_TRUE(state_.stop);
  EXPECT_TRUE(state_.stop->presumed);
  EXPECT_FALSE(accepted_stop(state_)) << "Slurm has not said what it means";
  give(StopAsked{StopCause::kPause, {}, 0, "dlctl pause", 7});
  ASSERT_TRUE(accepted_stop(state_)) << "this was promised";
  EXPECT_TRUE(accepted_stop(state_)->hold);
}

TEST_F(SuccessionTest, WhatWasDecidedIsDoneAsItWasRecorded) {
  record::Event saved;
  saved.state = record::JobState::kProcessing;
  record::Event end;
  end.state = record::JobState::kPending;
  end.reason = "preempted: saved at train step 40";
  end.exit = 75;
  record::Event learner;
  learner.learner = 1;
  learner.state = record::JobState::kFailed;
  learner.exit = 9;
  record::Event note;
  note.state = record::JobState::kPending;
  note.reason = "to be paused: dlctl pause";
  const std::vector<record::Event> events = {saved, end, learner, note};
  const std::string death = "dlrun was killed by signal 9 (SIGKILL)";
  record::RunMemory memory;
  EXPECT_FALSE(decided_before(memory, events, death)) << "nothing was";
  for (const What what :
       {What::kComplete, What::kRequeue, What::kHold, What::kAlreadyRequeued, What::kFail, What::kStopped}) {
    memory.decided = decided_text(what);
    ASSERT_FALSE(memory.decided.empty());
    const auto decided = decided_before(memory, events, death);
    ASSERT_TRUE(decided);
    EXPECT_EQ(decided->action, what);
    EXPECT_EQ(decided->exit_status, 75);
    EXPECT_EQ(decided->reason, "preempted: saved at train step 40; dlrun was killed by signal 9 (SIGKILL) meanwhile");
    EXPECT_FALSE(decided_before(memory, {saved, learner, note}, death)) << "there is no such event";
  }
  EXPECT_EQ(decided_text(What::kRestart), "") << "the next attempt is recorded when it begins";
  memory.decided = "of a later version";
  EXPECT_FALSE(decided_before(memory, events, death));
}

TEST_F(SuccessionTest, AFailureThatWasNotAnsweredYetIsKnownByItsClass) {
  const auto event = [](int attempt, std::optional<int> learner, record::JobState state, const char* failure) {
    record::Event made;
    made.attempt = attempt;
    made.learner = learner;
    made.state = state;
    made.failure = failure;
    return made;
  };
  using State = record::JobState;
  EXPECT_EQ(unanswered_failure({}, {}), "");
  std::vector<record::Event> events = {event(1, {}, State::kDeploy, ""), event(1, 0, State::kFailed, "port"),
                                       event(2, {}, State::kDeploy, "")};
  EXPECT_EQ(unanswered_failure({}, events), "") << "another attempt was the answer";
  events.push_back(event(2, 0, State::kHalted, ""));
  events.push_back(event(2, 1, State::kFailed, "gpu-memory"));
  events.push_back(event(2, 2, State::kFailed, "crash"));
  EXPECT_EQ(unanswered_failure({}, events), "gpu-memory") << "the first one";
  record::RunMemory memory;
  memory.decided = "fail";
  EXPECT_EQ(unanswered_failure(memory, events), "");
  memory = {};
  memory.lost = {"n2"};
  EXPECT_EQ(unanswered_failure(memory, events), "") << "going on on other nodes counts no restart";
  events[4].failure = "no-libuv";
  EXPECT_EQ(unanswered_failure({}, events), "") << "another store counts none";
}

TEST(MustSweep, WhatADeadDlrunLeftIsKilledUnlessSlurmDoesItAndTimeIsShort) {
  Stop stop;
  EXPECT_FALSE(must_sweep("", {}, false)) << "nothing is left";
  EXPECT_TRUE(must_sweep("7-1-abc", {}, true));
  EXPECT_TRUE(must_sweep("7-1-abc", stop, true)) << "a pause has no deadline";
  stop.deadline_ms = kSignal + 30'000;
  EXPECT_FALSE(must_sweep("7-1-abc", stop, true));
  EXPECT_TRUE(must_sweep("7-1-abc", stop, false)) << "the job does not go back into the queue";
}

}  // namespace
}  // namespace dl::supervise
