// SPDX-License-Identifier: Apache-2.0
// How a run is stopped, in each of its phases: by signals, by Slurm's words, by dlctl.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "launcher/supervise/run_state.h"

namespace dl::supervise {
namespace {

constexpr int64_t kSignal = 1'789'000'000'000;  // when the tests' signals come
using What = EndDecision::Action;

// One learner of a job under Slurm, and what was done about it.
class RunStopTest : public testing::Test {
 protected:
  RunStopTest() {
    state_.rules.under_slurm = true;
    state_.rules.kill_wait_s = 30;
    now_.unix_ms = kSignal;
    now_.awake_ms = 1'000'000;
  }
  void give(const RunEvent& event) {
    for (RunAction& action : next(&state_, event, now_)) done_.push_back(std::move(action));
  }
  void wait(int64_t ms) {
    now_.unix_ms += ms;
    now_.awake_ms += ms;
    give(Tick{});
  }
  void run() {
    give(Begin{});
    give(AgentsReady{1});
    give(AllStarted{});
    done_.clear();
  }
  // The learner's attempt has ended by a failure that is answered by this.
  void judge(What what, bool sweep = false, bool check = false) {
    give(Gone{0});
    give(EndLearners{500});
    give(AttemptOver{});
    Decided decided;
    decided.what = what;
    decided.sweep = sweep;
    decided.check = check;
    give(decided);
  }
  void pause() { give(StopAsked{StopCause::kPause, {}, 0, "dlctl pause", 7}); }
  void said(const char* state) {
    SlurmSaid answer;
    answer.job.emplace();
    answer.job->state = state;
    give(answer);
  }
  // The newest action of this kind since the last look; nullptr: there was none.
  template <typename T>
  const T* did() const {
    const T* found = nullptr;
    for (const RunAction& action : done_)
      if (const auto* is = std::get_if<T>(&action)) found = is;
    return found;
  }
  StopAnswer::Kind answer() const {
    const auto* answer = did<StopAnswer>();
    return answer != nullptr ? answer->kind : StopAnswer::Kind::kTooLate;
  }

  RunState state_;
  Moment now_;
  RunActions done_;
};

TEST_F(RunStopTest, ASaveIsBegunThoughSlurmHangsAndTheDeadlineCountsFromTheSignal) {
  run();
  give(Signalled{SIGTERM});
  ASSERT_TRUE(did<AskSlurm>());
  wait(100);
  EXPECT_FALSE(did<SendRequest>()) << "the answer mostly comes at once, and may be that nothing is to be saved";
  wait(450);
  ASSERT_TRUE(did<SendRequest>());
  EXPECT_EQ(did<SendRequest>()->kind, ProgressPage::kSaveAndExit);
  ASSERT_TRUE(state_.stop);
  EXPECT_EQ(state_.stop->deadline_ms, kSignal + 30000);
  // 20 s later Slurm does not know the job: nothing changes.
  wait(20000);
  give(SlurmSaid{});
  EXPECT_EQ(state_.stop->deadline_ms, kSignal + 30000);
  EXPECT_FALSE(did<KillLearners>());
  wait(9000);
  ASSERT_TRUE(did<KillLearners>()) << "a second before the deadline";
}

TEST_F(RunStopTest, WhenSlurmBeganToEndTheJobIsRemembered) {
  run();
  give(Signalled{SIGUSR2});
  SlurmSaid answer;
  answer.job.emplace();
  answer.job->state = "RUNNING";
  answer.job->end_time = kSignal / 1000 + 90;
  give(answer);
  pause();
  ASSERT_TRUE(state_.stop);
  EXPECT_EQ(state_.stop->slurm_ends_ms, 0) << "it only warned, and dlctl asked";
  wait(3000);
  give(Signalled{SIGTERM});
  wait(200);
  said("COMPLETING");
  EXPECT_EQ(state_.stop->slurm_ends_ms, kSignal + 3000) << "of the signal, not of the answer";
  wait(2000);
  give(Signalled{SIGTERM});
  said("COMPLETING");
  EXPECT_EQ(state_.stop->slurm_ends_ms, kSignal + 3000) << "of the first one";
}

// Learners that Slurm kills have not failed, but only Slurm can tell that it was Slurm. So its answer is awaited,
// whatever the job was stopped for before.
TEST_F(RunStopTest, AKillIsJudgedOnlyWhenSlurmHasSaidWhetherItEndsTheJob) {
  AttemptOver killed;
  killed.by_kill = true;
  run();
  pause();
  give(Signalled{SIGTERM});
  wait(600);
  EXPECT_FALSE(state_.stop->presumed) << "it was paused before";
  give(Gone{0});
  give(killed);
  EXPECT_TRUE(did<AskWhy>());
  EXPECT_FALSE(did<JudgeEnd>());
  said("COMPLETING");
  give(WhyKnown{});
  EXPECT_TRUE(did<JudgeEnd>());
  EXPECT_EQ(state_.stop->slurm_ends_ms, kSignal);
}

TEST_F(RunStopTest, AKillWhileSlurmWasStillAskedAboutItsWarning) {
  AttemptOver killed;
  killed.by_kill = true;
  run();
  give(Signalled{SIGUSR2});
  wait(3000);
  give(Signalled{SIGTERM});
  wait(600);
  EXPECT_TRUE(state_.stop->presumed);
  give(Gone{0});
  give(killed);
  ASSERT_TRUE(did<AskWhy>());
  done_.clear();
  said("RUNNING");  // what it had said before it ended the job
  give(WhyKnown{});
  EXPECT_FALSE(did<JudgeEnd>()) << "SIGTERM came after that";
  ASSERT_TRUE(did<AskWhy>());
  said("COMPLETING");
  give(WhyKnown{});
  EXPECT_TRUE(did<JudgeEnd>());
  EXPECT_EQ(state_.stop->slurm_ends_ms, kSignal + 3000);
}

// A dlrun that stood still for the whole of KillWait hears of the signal and of the kill at once.
TEST_F(RunStopTest, AKillBeforeAnythingCouldBePresumed) {
  AttemptOver killed;
  killed.by_kill = true;
  run();
  give(Signalled{SIGTERM});
  give(Gone{0});
  give(killed);
  ASSERT_TRUE(did<AskWhy>());
  said("COMPLETING");
  give(WhyKnown{});
  EXPECT_TRUE(did<JudgeEnd>());
  ASSERT_TRUE(state_.stop);
  EXPECT_TRUE(state_.stop->late);
  EXPECT_EQ(state_.stop->slurm_ends_ms, kSignal);
}

TEST_F(RunStopTest, TheEndOfTheJobCountsFromSigtermThoughTheAnswerWasAboutTheWarning) {
  run();
  give(Signalled{SIGUSR2});
  wait(3000);
  give(Signalled{SIGTERM});
  wait(600);
  said("COMPLETING");
  EXPECT_EQ(state_.stop->slurm_ends_ms, kSignal + 3000);
}

TEST_F(RunStopTest, AJobThatSlurmIsKillingIsPutBackAtOnce) {
  for (const bool by_slurm : {true, false})
    for (const What what : {What::kRequeue, What::kHold}) {
      state_ = RunState{};
      run();
      give(Gone{0});
      give(AttemptOver{});
      Decided decided;
      decided.what = what;
      decided.by_slurm = by_slurm;
      give(decided);
      ASSERT_TRUE(did<PutBack>());
      EXPECT_EQ(did<PutBack>()->at_once, by_slurm);
      EXPECT_EQ(did<PutBack>()->hold, what == What::kHold);
    }
}

TEST_F(RunStopTest, NothingIsAskedAboutLearnersThatEndedOtherwise) {
  run();
  pause();
  give(Signalled{SIGTERM});
  give(Gone{0});
  give(AttemptOver{});
  EXPECT_FALSE(did<AskWhy>()) << "they saved, or failed by themselves";
  EXPECT_TRUE(did<JudgeEnd>());
}

TEST(ReadSignalTest, TheRulesOfTheRunHoldForEverySignalThatIsRead) {
  RunRules rules;
  rules.kill_wait_s = 90;
  rules.signal_lead_s = 60;
  rules.restart_count = 2;
  EXPECT_EQ(read_signal(rules, SIGTERM, kSignal, {}, kSignal + 500).deadline_ms, kSignal + 90'000);
  slurm_cli::JobInfo job;
  job.state = "RUNNING";
  job.restarts = 2;
  job.end_time = kSignal / 1000 + 3600;
  EXPECT_EQ(read_signal(rules, SIGUSR2, kSignal, job, kSignal).kind, NoticeReading::Kind::kSaveNow);
  job.end_time = kSignal / 1000 + 30;
  EXPECT_EQ(read_signal(rules, SIGUSR2, kSignal, job, kSignal).kind, NoticeReading::Kind::kWatchTimeLimit);
  job.restarts = 3;
  EXPECT_EQ(read_signal(rules, SIGTERM, kSignal, job, kSignal).cause, StopCause::kSlurmRequeue);
}

TEST_F(RunStopTest, ASignalOfTheUsersOwnToDlrunIsAnsweredByASaveNearTheTimeLimitToo) {
  SlurmSaid answer;
  answer.job.emplace();
  answer.job->state = "RUNNING";
  answer.job->end_time = kSignal / 1000 + 90;
  run();
  give(Signalled{SIGUSR2});
  give(answer);
  EXPECT_TRUE(did<WatchTimeLimit>());
  EXPECT_FALSE(did<SendRequest>()) << "of slurm-dl: it tells of the time limit";
  wait(2000);
  state_.rules.saves_at_own_signal = true;
  give(Signalled{SIGUSR2});
  give(answer);
  EXPECT_TRUE(did<WatchTimeLimit>());
  ASSERT_TRUE(did<SendRequest>());
  EXPECT_EQ(did<SendRequest>()->kind, ProgressPage::kSave);
  EXPECT_FALSE(state_.stop);
}

// trap 'kill -TERM $pid; wait; scontrol requeue $SLURM_JOB_ID' USR1
TEST_F(RunStopTest, ASigtermOfTheScriptNearTheTimeLimitStopsAtOnceAndIsNotSlurmsEndOfTheJob) {
  SlurmSaid answer;
  answer.job.emplace();
  answer.job->state = "RUNNING";
  answer.job->end_time = kSignal / 1000 + 90;
  for (const bool slow : {false, true}) {  // whether Slurm's answer comes after the stop was begun
    SCOPED_TRACE(slow);
    state_ = RunState{};
    state_.rules.under_slurm = true;
    state_.rules.kill_wait_s = 30;
    now_.unix_ms = kSignal;
    run();
    give(Signalled{SIGTERM});
    wait(slow ? 600 : 100);
    give(answer);
    ASSERT_TRUE(did<SendRequest>());
    EXPECT_EQ(did<SendRequest>()->kind, ProgressPage::kSaveAndExit);
    ASSERT_TRUE(state_.stop);
    EXPECT_EQ(state_.stop->cause, StopCause::kTimeLimit);
    EXPECT_EQ(state_.stop->deadline_ms, kSignal + 90'000);
    EXPECT_EQ(state_.stop->slurm_ends_ms, 0) << "a learner that is killed now was not killed by Slurm";
    wait(20'000);
    give(Signalled{SIGTERM});
    wait(100);
    said("COMPLETING");
    EXPECT_EQ(state_.stop->slurm_ends_ms, kSignal + (slow ? 20'600 : 20'100)) << "now it ends the job";
  }
}

TEST_F(RunStopTest, NodesThatAreOfferedAreTakenAndLearnersGoOn) {
  SlurmSaid answer;
  answer.job.emplace();
  answer.job->state = "RUNNING";
  answer.job->admin_comment = "dl:1 tenant=nlp grow=2@" + std::to_string(kSignal / 1000);
  run();
  give(Signalled{SIGUSR2});
  give(answer);
  ASSERT_TRUE(did<TakeOffer>());
  EXPECT_EQ(did<TakeOffer>()->offer.nodes, 2);
  EXPECT_FALSE(did<SendRequest>());
  EXPECT_FALSE(state_.stop);
  wait(2000);
  done_.clear();
  give(Signalled{SIGUSR2});
  give(answer);
  EXPECT_FALSE(did<TakeOffer>()) << "it was taken";
  EXPECT_TRUE(did<SendRequest>()) << "the user's own signal asks for a save";
}

TEST_F(RunStopTest, WhatSlurmSaysLateCorrectsWhatWasPresumed) {
  run();
  give(Signalled{SIGTERM});
  wait(600);
  ASSERT_TRUE(state_.stop);
  EXPECT_EQ(state_.stop->cause, StopCause::kPreemption);
  SlurmSaid answer;
  answer.job.emplace();
  answer.job->state = "PREEMPTED";
  answer.job->end_time = kSignal / 1000 + 120;
  give(answer);
  EXPECT_EQ(state_.stop->deadline_ms, kSignal + 120000) << "more time than was presumed";
  EXPECT_FALSE(state_.stop->presumed);
}

TEST_F(RunStopTest, ACancelledJobSavesNothingWhereSlurmSaysSoInTime) {
  run();
  give(Signalled{SIGTERM});
  wait(50);
  said("COMPLETING");
  ASSERT_TRUE(did<SendRequest>());
  EXPECT_EQ(did<SendRequest>()->kind, ProgressPage::kExitWithoutSave);
  EXPECT_EQ(state_.stop->not_saved_reason, "not saved: the job was cancelled");
}

TEST_F(RunStopTest, AStopThatIsPresumedIsTriedThoughItMayNotFit) {
  run();
  now_.times.save_ms = 60000;
  give(Signalled{SIGTERM});
  wait(600);
  ASSERT_TRUE(did<SendRequest>());
  EXPECT_EQ(did<SendRequest>()->kind, ProgressPage::kSaveAndExit) << "Slurm may give more time";
}

TEST_F(RunStopTest, ASigtermThatComesWhileSlurmIsAskedAboutSigusr2IsAskedAboutNext) {
  run();
  give(Signalled{SIGUSR2});
  wait(300);
  give(Signalled{SIGTERM});
  said("RUNNING");
  EXPECT_TRUE(state_.question.open) << "that answer may be older than the SIGTERM";
  EXPECT_EQ(state_.question.signal, SIGTERM);
  EXPECT_EQ(state_.question.signal_ms, kSignal + 300);
  said("PENDING");
  ASSERT_TRUE(state_.stop);
  EXPECT_EQ(state_.stop->cause, StopCause::kSlurmRequeue);
  EXPECT_EQ(state_.stop->deadline_ms, kSignal + 30300);
}

TEST_F(RunStopTest, ASigtermSoonAfterTheAnswerToSigusr2IsNoRepetition) {
  run();
  give(Signalled{SIGUSR2});
  said("RUNNING");
  wait(200);
  give(Signalled{SIGUSR2});
  EXPECT_FALSE(state_.question.open) << "each agent tells of it";
  give(Signalled{SIGTERM});
  EXPECT_TRUE(state_.question.open);
}

TEST_F(RunStopTest, ASigtermBesideAQuestionThatHangsStopsTheRun) {
  run();
  give(Signalled{SIGUSR2});
  wait(200);
  give(Signalled{SIGTERM});
  wait(600);
  ASSERT_TRUE(state_.stop);
  EXPECT_EQ(state_.stop->deadline_ms, kSignal + 30200);
}

TEST_F(RunStopTest, APauseWhileAnAttemptIsSweptHoldsTheJob) {
  run();
  judge(What::kRestart, /*sweep=*/true);
  ASSERT_EQ(state_.phase, Phase::kSweeping);
  pause();
  EXPECT_EQ(answer(), StopAnswer::Kind::kLater);
  done_.clear();
  give(Swept{});
  EXPECT_FALSE(did<StartAttempt>());
  ASSERT_TRUE(did<JudgeStopped>());
  give(Decided{What::kHold});
  ASSERT_TRUE(did<PutBack>());
  EXPECT_TRUE(did<PutBack>()->hold);
}

TEST_F(RunStopTest, APauseWhileNodesAreCheckedOrLearnersFailHoldsTheJob) {
  run();
  judge(What::kRestart, false, /*check=*/true);
  ASSERT_EQ(state_.phase, Phase::kCheckingNodes);
  pause();
  give(Decided{What::kRestart});
  EXPECT_TRUE(did<JudgeStopped>());

  state_ = RunState{};
  run();
  give(EndLearners{500});
  ASSERT_EQ(state_.phase, Phase::kEnding);
  pause();
  EXPECT_EQ(answer(), StopAnswer::Kind::kLater);
  judge(What::kRestart);
  EXPECT_TRUE(did<JudgeStopped>());
}

TEST_F(RunStopTest, APauseOfAJobThatGoesBackIntoTheQueueHoldsItThere) {
  run();
  give(StopAsked{StopCause::kPreemption, kSignal + 60000, 0, "preempted"});
  pause();
  EXPECT_EQ(answer(), StopAnswer::Kind::kTaken);
  EXPECT_EQ(state_.stop->cause, StopCause::kPause);
  EXPECT_EQ(state_.stop->deadline_ms, kSignal + 60000) << "the deadline stays";

  state_ = RunState{};
  state_.rules.under_slurm = true;
  run();
  judge(What::kRequeue);
  ASSERT_EQ(state_.phase, Phase::kPuttingBack);
  pause();
  EXPECT_EQ(answer(), StopAnswer::Kind::kLater);
  EXPECT_FALSE(did<HoldJob>());
  give(BackInQueue{true});
  EXPECT_TRUE(did<HoldJob>());
}

TEST_F(RunStopTest, WhatEndsARunCountsMoreThanThatItWasToGoOnOnOtherNodes) {
  for (const StopCause cause : {StopCause::kPause, StopCause::kTimeLimit, StopCause::kYield, StopCause::kCancelled}) {
    state_ = RunState{};
    state_.rules.under_slurm = true;
    run();
    give(StopAsked{StopCause::kOtherNodes, {}, 0, "companion 13 runs"});
    give(StopAsked{cause, {}, 0, "somebody"});
    EXPECT_EQ(state_.stop->cause, cause);
    EXPECT_EQ(state_.stop->hold, cause == StopCause::kPause);
  }
  state_ = RunState{};
  run();
  give(StopAsked{StopCause::kOtherNodes, {}, 0, "companion 13 runs"});
  give(Gone{0});
  judge(What::kRestart);
  EXPECT_FALSE(did<JudgeStopped>()) << "it goes on";
  EXPECT_TRUE(did<StartAttempt>());
}

TEST_F(RunStopTest, AnEndThatWasDecidedIsNotChangedAndThatIsSaid) {
  run();
  judge(What::kFail);
  pause();
  EXPECT_EQ(answer(), StopAnswer::Kind::kTooLate);
}

TEST_F(RunStopTest, ADeadlineThatComesNearerShortensTheGraceOfLearnersThatAreKilled) {
  run();
  give(StopAsked{StopCause::kPause, {}, 0, "dlctl pause"});
  give(Reported{0, 1, {}});  // it does not use the checkpoint library
  ASSERT_TRUE(did<KillLearners>());
  EXPECT_EQ(did<KillLearners>()->grace_ms, 30000);
  give(StopAsked{StopCause::kPreemption, kSignal + 5000, 0, "preempted"});
  wait(3900);
  EXPECT_EQ(did<KillLearners>()->grace_ms, 30000);
  wait(150);
  EXPECT_EQ(did<KillLearners>()->grace_ms, 0);
}

TEST_F(RunStopTest, ASaveThatIsBeingMadeIsFollowedByTheStop) {
  run();
  give(SaveDue{});
  give(Reported{0, 1, {true, ProgressPage::kTraining, 4}});
  ASSERT_TRUE(did<SendDecide>());
  give(StopAsked{StopCause::kTimeLimit, kSignal + 60000, 0, "time limit near"});
  EXPECT_EQ(did<SendRequest>()->request, 1);
  give(Acted{0, 1});
  EXPECT_EQ(did<SendRequest>()->request, 2);
  EXPECT_EQ(did<SendRequest>()->kind, ProgressPage::kSaveAndExit);
}

TEST_F(RunStopTest, WithoutSlurmCtrlCTwiceEndsAtOnce) {
  state_.rules.under_slurm = false;
  run();
  give(Signalled{SIGINT});
  give(Signalled{SIGINT});
  EXPECT_FALSE(did<KillLearners>()) << "a process and its group are one";
  wait(1000);
  give(Signalled{SIGINT});
  ASSERT_TRUE(did<KillLearners>());
  EXPECT_EQ(did<KillLearners>()->grace_ms, 0);
}

}  // namespace
}  // namespace dl::supervise
