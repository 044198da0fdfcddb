// SPDX-License-Identifier: Apache-2.0
// A dlrun takes the place of one that died: what it goes on with, in which order, and what it asks Slurm before.
// Slurm's commands are scripts; real deaths are tried in tests/cluster and tests/cli.
#include "launcher/supervise/successor.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/awake_clock.h"
#include "common/base/clock.h"
#include "common/contract/exit_codes.h"
#include "launcher/supervise/succession.h"
#include "tests/unit/supervise_fake_commands.h"
#include "tests/unit/supervise_owner.h"

namespace dl::supervise {
namespace {

using Action = EndDecision::Action;
using Strings = std::vector<std::string>;

// The dead dlrun of job 7 had begun an attempt of three learners on n0 to n2. What the new one does is listed in done_.
class SuccessorTest : public OwnerTest {
 protected:
  SuccessorTest() : OwnerTest(3) {}
  void SetUp() override {
    OwnerTest::SetUp();
    plan_.job_id = "7";
    plan_.restarts = 3;
    before_.death = "dlrun was killed by signal 9 (SIGKILL)";
    before_.exit_status = 137;
    before_.began = true;
    old_ = std::make_unique<Journal>(record::JobDir(folder_), nullptr);
    ASSERT_TRUE(old_->open());
    old_->begin_attempt(1, 0);
    old_->job(record::JobState::kDeploy, "");
  }
  // What the dead dlrun remembers, in its last event.
  template <typename Change>
  void remembers(Change change) {
    old_->change_memory(change);
    old_->job(record::JobState::kProcessing, "all learners run");
  }
  // The new dlrun, with what plan_ and before_ say now.
  void begin() {
    old_.reset();
    journal_ = std::make_unique<Journal>(record::JobDir(folder_), nullptr);
    ASSERT_TRUE(journal_->open());
    nodes_ = std::make_unique<NodePool>(
        plan_, [this](const Strings& gone, const plan::LaunchPlan& now) -> Result<plan::LaunchPlan> {
          if (!elastic_) return Error{Errc::kConflict, "too few"};
          plan::LaunchPlan rest = now;
          rest.nodes.resize(now.nodes.size() - gone.size());
          rest.learners.resize(rest.nodes.size());
          return rest;
        });
    slurm_ = std::make_unique<SlurmJob>(&loop_, plan_.under_slurm ? "7" : "", [](const slurm_cli::JobInfo&) {});
    sweeper_ = std::make_unique<Sweeper>(slurm_.get(), nodes_.get(), "dl-agent");
    judge_ = std::make_unique<EndJudge>(
        EndJudge::Sources{&attempt_, &state_, nodes_.get(), slurm_.get(), journal_.get(), &site_});
    state_.rules.under_slurm = plan_.under_slurm;
    Successor::Calls calls;
    calls.happens = [this](const RunEvent& event) {
      if (const auto* stop = std::get_if<StopAsked>(&event)) {
        done_.push_back(std::string("stop: ") + stop_cause_key(stop->cause));
        stop_ = *stop;
      }
      if (const auto* decided = std::get_if<Decided>(&event))
        done_.push_back("decided: " + decided_name(decided->what));
    };
    calls.kill_wait = [this](int64_t seconds) {
      done_.emplace_back("KillWait is known");
      state_.rules.kill_wait_s = seconds;
    };
    calls.settle = [this](const plan::LaunchPlan& plan) { settled_ = plan.world_size(); };
    calls.start = [this](const std::string& why, const std::string& /*code*/) { done_.push_back("start: " + why); };
    calls.release = [this](const Strings& nodes) {
      for (const std::string& node : nodes) done_.push_back("release: " + node);
    };
    successor_ = std::make_unique<Successor>(Successor::Owners{judge_.get(), &attempt_, &state_, nodes_.get(),
                                                               slurm_.get(), sweeper_.get(), journal_.get(), &voice_},
                                             std::move(calls), before_);
  }
  static std::string decided_name(Action what) {
    const std::string recorded = decided_text(what);
    return recorded.empty() ? "another attempt" : recorded;
  }
  void take_over() {
    begin();
    ASSERT_TRUE(successor_->has_predecessor());
    successor_->take_over();
    uv_run(&loop_, UV_RUN_DEFAULT);
  }
  // Under Slurm, which shows this of the job.
  void under_slurm(const std::string& lines) {
    plan_.under_slurm = true;
    commands_.write("scontrol",
                    "echo \"$*\" >>asked\n[ \"$2\" = job ] || { echo 'KillWait = 44 sec'; exit; }\n"
                    "printf 'JobId=7 JobName=x\\n   UserId=ada(7) GroupId=ada(7) MCS_label=N/A\\n   " +
                        lines + "\\n'");
    commands_.write("srun", "echo \"$*\" >>swept");
  }

  FakeCommands commands_;
  SiteConfig site_;
  bool elastic_ = true;
  guard::Predecessor before_;
  std::unique_ptr<Journal> old_;

  Strings done_;
  std::unique_ptr<SlurmJob> slurm_;
  std::unique_ptr<Sweeper> sweeper_;
  std::unique_ptr<EndJudge> judge_;
  std::unique_ptr<Successor> successor_;
  StopAsked stop_;
  int settled_ = 0;
};

TEST_F(SuccessorTest, TheFirstDlrunOfAGuardTakesNothingOver) {
  before_ = {};
  begin();
  EXPECT_FALSE(successor_->has_predecessor());
}

TEST_F(SuccessorTest, WithoutSlurmTheDeathIsAnsweredAtOnceWithAnotherAttempt) {
  remembers([](record::RunMemory* memory) { memory->restarts = 1; });
  take_over();
  EXPECT_EQ(done_, Strings{"decided: another attempt"});
  EXPECT_EQ(settled_, 3);
  EXPECT_EQ(journal_->memory().restarts, 1) << "the death itself is counted by what begins the attempt";
  ASSERT_EQ(attempt_.failures().size(), 1U);
  EXPECT_EQ(attempt_.failures()[0].kind, Failure::Kind::kLauncher);
  EXPECT_EQ(commands_.file("asked"), "");
  successor_->start();
  ASSERT_EQ(done_.size(), 2U) << "no node is given back";
  EXPECT_EQ(done_[1].rfind("start: restart of dlrun: ", 0), 0U) << done_[1];
  EXPECT_NE(said_.back().find("another has taken its place"), std::string::npos);
}

TEST_F(SuccessorTest, AStopThatWasAcceptedIsAskedForAgainBeforeTheDeathIsAnswered) {
  remembers([](record::RunMemory* memory) {
    memory->stop = record::AcceptedStop{stop_cause_key(StopCause::kPreemption), "its owner", SIGTERM, 5000, false};
  });
  take_over();
  EXPECT_EQ(done_, (Strings{std::string("stop: ") + stop_cause_key(StopCause::kPreemption), done_.back()}));
  EXPECT_EQ(done_.back().rfind("decided: ", 0), 0U);
  EXPECT_EQ(stop_.deadline_ms, 5000);
}

TEST_F(SuccessorTest, WhatAnotherRunOfTheJobHadWrittenIsNotRemembered) {
  remembers([](record::RunMemory* memory) { memory->restarts = 3; });
  before_.began = false;
  take_over();
  EXPECT_EQ(journal_->memory().restarts, 0);
}

TEST_F(SuccessorTest, AFailureThatWasNotAnsweredCountsAsARestart) {
  remembers([](record::RunMemory* memory) { memory->restarts = 1; });
  FailureClass its;
  its.name = "segfault";
  old_->learner_failed(1, "n1", "learner 1 was killed by signal 11 (SIGSEGV)", its, "s", 139);
  take_over();
  EXPECT_EQ(journal_->memory().restarts, 2);
  EXPECT_EQ(journal_->memory().class_restarts.at("segfault"), 1);
}

TEST_F(SuccessorTest, NodesThatWereJustLostAreLeftOutAndGivenBackWhenTheNextAttemptHasBegun) {
  under_slurm("JobState=RUNNING Reason=None Dependency=(null)");
  remembers([](record::RunMemory* memory) {
    memory->lost = {"n1"};
    memory->moved = 1;
  });
  take_over();
  EXPECT_EQ(journal_->memory().moved, 2);
  EXPECT_TRUE(journal_->memory().lost.empty());
  EXPECT_EQ(journal_->memory().left_out, Strings{"n1"});
  EXPECT_EQ(settled_, 2);
  successor_->start();
  ASSERT_GE(done_.size(), 2U);
  EXPECT_EQ(done_[done_.size() - 2].rfind("start: ", 0), 0U);
  EXPECT_EQ(done_.back(), "release: n1");
}

TEST_F(SuccessorTest, NodesThatTheJobCannotDoWithoutStayLost) {
  elastic_ = false;
  under_slurm("JobState=RUNNING Reason=None Dependency=(null)");
  remembers([](record::RunMemory* memory) { memory->lost = {"n1"}; });
  take_over();
  EXPECT_EQ(journal_->memory().moved, 0);
  EXPECT_EQ(journal_->memory().lost, Strings{"n1"});
  EXPECT_TRUE(nodes_->any_lost());
}

TEST_F(SuccessorTest, SlurmIsAskedForKillWaitAndTheJobAndThenWhatIsLeftIsSwept) {
  under_slurm("JobState=RUNNING Reason=None Dependency=(null)");
  before_.unswept = "7-1-abc";
  begin();
  successor_->take_over();
  EXPECT_TRUE(done_.empty()) << "Slurm has not answered";
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(done_, (Strings{"KillWait is known", "decided: another attempt"}));
  EXPECT_EQ(state_.rules.kill_wait_s, 44);
  EXPECT_NE(commands_.file("swept").find("=7-1-abc"), std::string::npos) << commands_.file("swept");
}

TEST_F(SuccessorTest, ASignalThatTheDeadDlrunHadNotUnderstoodIsUnderstoodNow) {
  under_slurm("JobState=CANCELLED Reason=None Dependency=(null)");
  remembers([](record::RunMemory* /*memory*/) {});
  before_.notice = SIGTERM;
  before_.notice_ms = unix_ms() - 1000;
  take_over();
  ASSERT_EQ(done_.size(), 3U);
  EXPECT_EQ(done_[0], "KillWait is known");
  EXPECT_EQ(done_[1], std::string("stop: ") + stop_cause_key(StopCause::kCancelled));
  EXPECT_EQ(stop_.signal, SIGTERM);
  EXPECT_EQ(stop_.deadline_ms, before_.notice_ms + 44'000) << "it counts from the signal";
}

TEST_F(SuccessorTest, WhatWasDecidedIsCarriedOutAndTheDeathIsNoFailureOfTheAttempt) {
  old_->job(record::JobState::kProcessing, "all learners run");
  old_->change_memory([](record::RunMemory* memory) { memory->decided = decided_text(Action::kHold); });
  old_->job(record::JobState::kHalted, "paused: saved at train step 40", 40, "", kExitSaved);
  take_over();
  EXPECT_EQ(done_, Strings{"decided: " + decided_text(Action::kHold)});
  EXPECT_TRUE(attempt_.failures().empty());
}

}  // namespace
}  // namespace dl::supervise
