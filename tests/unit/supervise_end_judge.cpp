// SPDX-License-Identifier: Apache-2.0
// What the end of an attempt is judged by: failures, stops, Slurm, lost nodes, and the death of a dlrun. The decisions
// themselves are tried in supervise_decisions.cpp.
#include "launcher/supervise/end_judge.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/contract/exit_codes.h"
#include "common/contract/progress_page.h"
#include "launcher/supervise/succession.h"
#include "tests/unit/supervise_plan.h"

namespace dl::supervise {

using namespace protocol;

namespace {

using Action = EndDecision::Action;
constexpr int64_t kNow = 500'000, kUnix = 1'789'000'500'000;

// An attempt of two learners on two nodes.
class EndJudgeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(uv_loop_init(&loop_), 0);
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    plan_.under_slurm = true;
    plan_.restarts = 3;
    begin();
  }
  void TearDown() override {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    std::filesystem::remove_all(folder_);
  }
  // Everything anew, by plan_ and site_.
  void begin(bool checks_nodes = false) {
    journal_ = std::make_unique<Journal>(record::JobDir(folder_), nullptr);
    ASSERT_TRUE(journal_->open());
    journal_->begin_attempt(1, 0);
    nodes_ = std::make_unique<NodePool>(plan_, NodePool::Without{});
    attempt_ = Attempt(plan_, 100'000, kUnix - 400'000);
    slurm_ = std::make_unique<SlurmJob>(&loop_, "7", [](const slurm_cli::JobInfo& /*info*/) {});
    state_ = RunState{};
    judge_ = std::make_unique<EndJudge>(
        EndJudge::Sources{&attempt_, &state_, nodes_.get(), slurm_.get(), journal_.get(), &site_, checks_nodes});
  }
  void fail(int rank, int signal, int64_t at_ms = kNow - 1000) {
    Failure failure;
    failure.kind = Failure::Kind::kSignal;
    failure.signal = signal;
    failure.last_lines = {"the last line"};
    attempt_.fail(rank, failure, at_ms);
    attempt_.end(rank);
  }
  void finish(int rank, int exit = 0) { attempt_.end_well(rank, exit, exit != 0, kNow); }
  void learn(bool batch) {
    slurm_cli::JobInfo info;
    info.batch = info.requeue = batch;
    slurm_->learn(info);
  }
  Stop& stop(StopCause cause) {
    state_.stop = Stop{};
    state_.stop->cause = cause;
    return *state_.stop;
  }
  void saved(int rank, int64_t step) {
    Progress progress;
    progress.state = ProgressPage::kTraining;
    progress.step = progress.saved_step = step;
    attempt_.progressed(rank, progress, kNow - 2000);
  }
  Decided end() { return judge_->end(kNow, kUnix); }

  std::string folder_ = testing::TempDir() + "judge-XXXXXX";
  uv_loop_t loop_{};
  plan::LaunchPlan plan_ = plan_of(2);
  SiteConfig site_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<NodePool> nodes_;
  Attempt attempt_;
  std::unique_ptr<SlurmJob> slurm_;
  RunState state_;
  std::unique_ptr<EndJudge> judge_;
};

TEST_F(EndJudgeTest, ARunWhoseLearnersAllEndWellIsComplete) {
  finish(0);
  finish(1);
  EXPECT_FALSE(judge_->over().job_known);
  EXPECT_EQ(end().what, Action::kComplete);
  EXPECT_FALSE(judge_->cause());
  EXPECT_EQ(judge_->code(), "");
}

TEST_F(EndJudgeTest, AFailureIsAnsweredWithARestartUntilNoneIsLeft) {
  fail(1, SIGSEGV);
  finish(0);
  const Decided decided = end();
  EXPECT_EQ(decided.what, Action::kRestart);
  EXPECT_FALSE(decided.sweep);
  EXPECT_FALSE(decided.check);
  ASSERT_TRUE(judge_->cause());
  EXPECT_EQ(judge_->cause()->rank, 1);
  EXPECT_NE(judge_->code(), "");
  journal_->change_memory([](record::RunMemory* memory) { memory->restarts = 3; });
  EXPECT_EQ(end().what, Action::kFail);
}

TEST_F(EndJudgeTest, WhatLostAgentsLeftIsSwept) {
  Failure lost;
  lost.kind = Failure::Kind::kAgentLost;
  lost.text = "its agent died";
  attempt_.fail(0, lost, kNow);
  attempt_.lose_agent(0);
  finish(1);
  EXPECT_TRUE(end().sweep);
  EXPECT_TRUE(judge_->over().by_kill);
}

TEST_F(EndJudgeTest, WithoutLibuvAnAttemptBeginsAnewOnceWhoeverHostsTheStore) {
  for (const int learners : {1, 2})
    for (const bool launcher_store : {false, true}) {
      plan_ = plan_of(learners);
      plan_.launcher_store = launcher_store;
      begin();
      Failure failure;
      failure.kind = Failure::Kind::kExit;
      failure.exit = 1;
      failure.exception = "RuntimeError: use_libuv was requested but PyTorch was build without libuv support";
      for (int rank = 0; rank < learners; ++rank) {
        attempt_.fail(rank, failure, kNow - 1000);
        attempt_.end(rank);
      }
      EXPECT_TRUE(end().again);
      nodes_->use_store_without_libuv();
      EXPECT_FALSE(end().again);
    }
}

TEST_F(EndJudgeTest, NodesAreCheckedOnlyBeforeARestartThatOneOfThemMayHaveCaused) {
  for (const bool wanted : {false, true})
    for (const bool by_node : {false, true}) {
      begin(wanted);
      Failure failure;
      failure.kind = Failure::Kind::kExit;
      failure.exit = 1;
      failure.last_lines = {by_node ? "NCCL WARN NET/IB : Got completion with error 12" : "KeyError: 'lr'"};
      if (!by_node) failure.exception = "KeyError: 'lr'";
      attempt_.fail(0, failure, kNow);
      finish(1);
      attempt_.end(0);
      const Decided decided = end();
      EXPECT_EQ(decided.what, Action::kRestart);
      EXPECT_EQ(decided.check, wanted && by_node);
    }
}

TEST_F(EndJudgeTest, ABadNodeChangesTheDecisionAndNoneDoesNot) {
  begin(true);
  fail(0, SIGBUS);
  finish(1);
  ASSERT_EQ(end().what, Action::kRestart);
  EXPECT_EQ(judge_->nodes_checked({}).what, Action::kRestart);
  EXPECT_EQ(judge_->nodes_checked({"n0"}).what, Action::kFail) << "the rest cannot hold the learners";
  EXPECT_FALSE(nodes_->rest_suffices());
}

TEST_F(EndJudgeTest, AStopThatSavedPutsTheJobBackAndAPauseHoldsIt) {
  for (const StopCause cause : {StopCause::kPreemption, StopCause::kPause}) {
    begin();
    learn(/*batch=*/true);
    stop(cause);
    saved(0, 40);
    finish(0, kExitSaved);
    finish(1, kExitSaved);
    EXPECT_TRUE(judge_->over().job_known);
    EXPECT_EQ(end().what, cause == StopCause::kPause ? Action::kHold : Action::kRequeue);
  }
}

TEST_F(EndJudgeTest, OutsideSlurmACtrlCWithoutASaveHasTheStatusThatShellsExpect) {
  for (const bool under_slurm : {false, true})
    for (const int code : {kExitNotSaved, kExitSaved}) {
      plan_.under_slurm = under_slurm;
      begin();
      stop(StopCause::kInterrupt).signal = SIGINT;
      finish(0, code);
      finish(1, code);
      EXPECT_EQ(end().what, Action::kStopped);
      EXPECT_EQ(judge_->decision().exit_status, code);
      EXPECT_EQ(judge_->exit_status(), !under_slurm && code == kExitNotSaved ? 130 : code);
    }
}

TEST_F(EndJudgeTest, AFailureAfterTheAgreedTrainStepIsCommittedIsNone) {
  learn(true);
  stop(StopCause::kPreemption);
  state_.agreement.begin(1, ProgressPage::kSaveAndExit, 2);
  StepAnswer answer;
  answer.attached = true;
  answer.step = 39;
  answer.state = ProgressPage::kTraining;
  state_.agreement.answer(0, 1, answer);
  state_.agreement.answer(1, 1, answer);
  state_.agreement.decided(state_.agreement.decide());
  ASSERT_EQ(state_.agreement.step(), 40);
  saved(0, 40);
  finish(0, kExitSaved);
  fail(1, SIGABRT);
  EXPECT_EQ(end().what, Action::kRequeue);
  EXPECT_FALSE(end().sweep);
}

TEST_F(EndJudgeTest, AStopBeforeTheNextAttemptIsCarriedOutInPlaceOfARestart) {
  learn(true);
  fail(0, SIGSEGV);
  finish(1);
  ASSERT_EQ(end().what, Action::kRestart);
  stop(StopCause::kPause).late = true;
  EXPECT_EQ(judge_->stopped(kNow, kUnix).what, Action::kHold);
}

TEST_F(EndJudgeTest, SlurmsKillIsNoFailureOfTheLearnerThatItHits) {
  learn(true);
  stop(StopCause::kCancelled).slurm_ends_ms = kUnix - 60'000;
  fail(0, SIGKILL, kNow - 1000);
  finish(1, kExitNotSaved);
  const Decided decided = end();
  EXPECT_TRUE(decided.by_slurm);
  EXPECT_FALSE(judge_->cause());
  // The same before Slurm began to end the job.
  state_.stop->slurm_ends_ms = kUnix;
  EXPECT_FALSE(end().by_slurm);
}

TEST_F(EndJudgeTest, WhoSentASigtermThatEndedTheLearnersSlurmTells) {
  fail(0, SIGTERM);
  EXPECT_TRUE(judge_->over().by_sigterm);
  EXPECT_FALSE(judge_->why(kUnix - 1000, kUnix).by_slurm) << "Slurm does not answer";
  slurm_cli::JobInfo info;
  info.state = "RUNNING";
  slurm_->learn(info);
  EXPECT_FALSE(judge_->why(kUnix - 1000, kUnix).by_slurm) << "Slurm does nothing with the job, so it was somebody else";
  info.state = "CANCELLED by 1000";
  slurm_->learn(info);
  EXPECT_EQ(judge_->why(kUnix - 1000, kUnix).by_slurm, StopCause::kCancelled);
  begin();
  slurm_->learn(info);
  fail(0, SIGSEGV);
  EXPECT_FALSE(judge_->why(kUnix - 1000, kUnix).by_slurm) << "no SIGTERM has ended it";
}

Failure death_of_dlrun() {
  Failure death;
  death.kind = Failure::Kind::kLauncher;
  death.text = "dlrun was killed by signal 9 (SIGKILL)";
  death.exit = 137;
  return death;
}

TEST_F(EndJudgeTest, AfterTheDeathOfADlrunAnAttemptBeginsUnlessItDiesTooOften) {
  const Failure death = death_of_dlrun();
  guard::Predecessor before;
  before.death = death.text;
  bool goes_on = true;
  EXPECT_EQ(judge_->after_death(death, before, &goes_on).what, Action::kRestart);
  EXPECT_FALSE(goes_on);
  EXPECT_NE(judge_->decision().reason.find(death.text), std::string::npos);
  before.last = true;
  EXPECT_EQ(judge_->after_death(death, before, &goes_on).what, Action::kFail);
  EXPECT_EQ(judge_->decision().exit_status, 137);
}

TEST_F(EndJudgeTest, WhatADeadDlrunHadDecidedIsCarriedOut) {
  const Failure death = death_of_dlrun();
  guard::Predecessor before;
  before.death = death.text;
  journal_->job(record::JobState::kDeploy, "");
  journal_->job(record::JobState::kProcessing, "all learners run");
  journal_->job(record::JobState::kHalted, "paused: saved at train step 40", 40, "", kExitSaved);
  journal_->change_memory([](record::RunMemory* memory) { memory->decided = decided_text(Action::kHold); });
  bool goes_on = false;
  EXPECT_EQ(judge_->after_death(death, before, &goes_on).what, Action::kHold);
  EXPECT_TRUE(goes_on);
  EXPECT_EQ(judge_->decision().exit_status, kExitSaved);
  stop(StopCause::kSlurmRequeue);
  EXPECT_EQ(judge_->after_death(death, before, &goes_on).what, Action::kAlreadyRequeued)
      << "Slurm has put it back since";
  journal_->change_memory([](record::RunMemory* memory) { memory->decided.clear(); });
  EXPECT_EQ(judge_->after_death(death, before, &goes_on).what, Action::kRestart) << "nothing was decided";
  EXPECT_FALSE(goes_on);
}

TEST_F(EndJudgeTest, TheLastWordsNameTheClassAndShowTheLogOfTheFirstFailure) {
  plan_.restarts = 0;
  begin();
  fail(1, SIGSEGV);
  finish(0);
  ASSERT_EQ(end().what, Action::kFail);
  const std::string text = judge_->failure_text("dlrun 2", false, "/logs/learner-1.log");
  EXPECT_EQ(text.rfind("dlrun 2: " + judge_->decision().reason, 0), 0U) << text;
  EXPECT_NE(text.find("; its output: /logs/learner-1.log\n"), std::string::npos) << text;
  EXPECT_NE(text.find("dlrun 2:   | the last line\n"), std::string::npos) << text;
}

TEST_F(EndJudgeTest, ALearnerAloneHasJustPrintedItsLastLinesUnlessItsRunIsQuiet) {
  plan_.restarts = 0;
  plan_.learners.pop_back();
  plan_.nodes.pop_back();
  begin();
  fail(0, SIGSEGV);
  end();
  EXPECT_EQ(judge_->failure_text("dlrun", false, "/log").find("the last line"), std::string::npos);
  EXPECT_NE(judge_->failure_text("dlrun", true, "/log").find("the last line"), std::string::npos);
}

}  // namespace
}  // namespace dl::supervise
