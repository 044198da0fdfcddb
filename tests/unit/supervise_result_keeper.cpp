// SPDX-License-Identifier: Apache-2.0
// What becomes of the results of a run at its end. In the places of dl-data and of Slurm's commands are scripts.
#include "launcher/supervise/result_keeper.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/json/json.h"
#include "tests/unit/supervise_fake_commands.h"
#include "tests/unit/supervise_owner.h"

namespace dl::supervise {
namespace {

class ResultKeeperTest : public OwnerTest {
 protected:
  ResultKeeperTest() : OwnerTest(1) {}
  void SetUp() override {
    OwnerTest::SetUp();
    plan_.job_id = "7";
    plan_.under_slurm = true;
    plan_.data_program = commands_.folder() + "/bin/dl-data";
    plan_.results.emplace();
    plan_.results->to = "/out/7";
    dl_data("exit 0");
    commands_.show_jobs("JobState=RUNNING Reason=None Dependency=(null)");
    commands_.write("sbatch", "cat >script; echo x >>submitted; echo 41");
    commands_.write("scancel", "shift; echo \"$*\" >>cancelled");
    begin();
  }
  // Everything anew, by plan_.
  void begin() {
    begin_processing();
    stops_ = std::make_unique<StopController>(plan_, 0);
    keeper_ = std::make_unique<ResultKeeper>(
        &loop_, ResultKeeper::Owners{nodes_.get(), &state_, stops_.get(), &slurm_, journal_.get(), &voice_},
        record::JobDir(folder_), 1);
  }
  void dl_data(const std::string& body) { commands_.write("dl-data", body); }
  void stop(StopCause cause) {
    state_.stop.emplace();
    state_.stop->cause = cause;
  }
  // Begins to store; it is over when over_ says so.
  void store(AfterEnd after = AfterEnd::kOver) {
    over_ = 0;
    keeper_->store(after, [this] { ++over_; });
  }
  // Stores to the end.
  void stored(AfterEnd after = AfterEnd::kOver) {
    store(after);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(over_, 1);
    EXPECT_FALSE(keeper_->under_way());
  }
  void run_until_store_runs() {
    ASSERT_TRUE(keeper_->under_way());
    for (int i = 0; i < 400 && commands_.file("began").empty(); ++i) uv_run(&loop_, UV_RUN_ONCE);
    ASSERT_FALSE(commands_.file("began").empty());
  }
  // What stored.json says.
  Json record() const {
    std::ifstream in(record::JobDir(folder_).stored());
    return Json::parse(std::string{std::istreambuf_iterator<char>(in), {}});
  }

  FakeCommands commands_;
  SlurmJob slurm_{&loop_, "7", [](const slurm_cli::JobInfo& /*info*/) {}};
  std::unique_ptr<StopController> stops_;
  std::unique_ptr<ResultKeeper> keeper_;
  int over_ = 0;
};

TEST_F(ResultKeeperTest, WithoutResultsTheRunEndsAtOnce) {
  plan_.results.reset();
  begin();
  store();
  EXPECT_EQ(over_, 1);
  EXPECT_FALSE(keeper_->tried());
  EXPECT_FALSE(keeper_->left_behind());
  EXPECT_EQ(keeper_->not_stored("S303"), "");
  EXPECT_FALSE(std::filesystem::exists(record::JobDir(folder_).stored()));
}

TEST_F(ResultKeeperTest, ResultsAreStoredBeforeTheRunEnds) {
  store();
  EXPECT_EQ(over_, 0);
  EXPECT_TRUE(keeper_->under_way());
  EXPECT_EQ(journal_->state(), record::JobState::kStoring);
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(over_, 1);
  EXPECT_TRUE(keeper_->tried());
  EXPECT_FALSE(keeper_->left_behind());
  EXPECT_EQ(keeper_->not_stored("S303"), "");
  EXPECT_EQ(record().value("done", false), true);
  EXPECT_EQ(record().value("attempt", 0), 1);
  EXPECT_EQ(commands_.file("submitted"), "");
}

TEST_F(ResultKeeperTest, WhatIsRefusedLiesInTheJobDirectoryAndIsHandedToNobody) {
  dl_data("echo 'the place is full' >&2; exit 65");
  stored();
  EXPECT_TRUE(keeper_->left_behind());
  EXPECT_EQ(keeper_->not_stored("S303"), "; the results are not stored (S303): the place is full");
  EXPECT_EQ(record().value("done", true), false);
  EXPECT_EQ(commands_.file("submitted"), "");
  dl_data("exit 0");
  stored();
  EXPECT_FALSE(keeper_->left_behind()) << "of the newest end alone";
}

TEST_F(ResultKeeperTest, WhatIsTooLateIsHandedToAJobUnlessTheNextAttemptStoresIt) {
  stop(StopCause::kYield);
  stored(AfterEnd::kQueued);
  EXPECT_FALSE(keeper_->tried());
  EXPECT_EQ(journal_->state(), record::JobState::kProcessing) << "nothing was begun";
  EXPECT_EQ(commands_.file("submitted"), "");
  EXPECT_EQ(keeper_->not_stored("S305"), "; the results are not stored (S305): no time was left");
  stored(AfterEnd::kHeld);
  EXPECT_EQ(commands_.file("submitted"), "x\n");
  EXPECT_EQ(keeper_->not_stored("S305"), "; job 41 stores the results: no time was left");
  EXPECT_FALSE(keeper_->left_behind());
  EXPECT_EQ(record().value("job", std::string()), "41");
  EXPECT_EQ(said_, std::vector<std::string>{"dlrun: job 41 stores the results: no time was left"});
  EXPECT_EQ(commands_.file("cancelled"), "");
  state_.stop.reset();
  stored();
  EXPECT_EQ(commands_.file("cancelled"), "41\n") << "this end stores them itself";
}

TEST_F(ResultKeeperTest, AJobThatCannotBeSubmittedIsSaidAlsoToAUserWhoWantsQuiet) {
  voice_ = Voice(0, /*quiet=*/true, [this](const std::string& text) { said_.push_back(text); });
  commands_.write("sbatch", "cat >script; echo 'sbatch: error: no account' >&2; exit 1");
  stop(StopCause::kYield);
  stored();
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_NE(said_[0].find("no time was left, and no job without GPUs could be submitted to store them: "),
            std::string::npos)
      << said_[0];
  EXPECT_NE(said_[0].find("they are in " + folder_), std::string::npos) << said_[0];
  EXPECT_TRUE(keeper_->left_behind());
}

TEST_F(ResultKeeperTest, WhoeverCancelsAJobOrKillsItWantsNothingMore) {
  stop(StopCause::kCancelled);
  stored();
  EXPECT_EQ(commands_.file("submitted"), "");
  EXPECT_TRUE(keeper_->left_behind());
  state_.killed = true;
  store();
  EXPECT_EQ(over_, 1) << "at once";
  EXPECT_EQ(keeper_->not_stored("S304"), "");
}

TEST_F(ResultKeeperTest, CtrlCEndsAStoreAndASecondOneChangesNothing) {
  dl_data("echo x >began; exec sleep 60");
  keeper_->hurry(SIGINT);  // no store is under way
  store();
  run_until_store_runs();
  keeper_->hurry(SIGUSR1);
  keeper_->hurry(SIGINT);
  keeper_->hurry(SIGINT);
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(over_, 1);
  EXPECT_NE(keeper_->not_stored("S304").find("the time did not suffice"), std::string::npos);
  keeper_->hurry(SIGINT);
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(over_, 1) << "it has ended";
}

TEST_F(ResultKeeperTest, AStoreKeepsTheDeadlineThatSlurmsSignalBrings) {
  commands_.show_jobs("JobState=COMPLETING Reason=None Dependency=(null)");
  state_.rules.under_slurm = true;
  state_.rules.kill_wait_s = 7;  // of it a second is left for the store
  dl_data("echo x >began; exec sleep 60");
  store();
  run_until_store_runs();
  const int64_t begin_ms = unix_ms();
  keeper_->hurry(SIGTERM);
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(over_, 1);
  EXPECT_LT(unix_ms() - begin_ms, 30'000);
}

TEST_F(ResultKeeperTest, WithoutSlurmASignalDoesNotHurryAStore) {
  plan_.under_slurm = false;
  begin();
  dl_data("echo x >began; exec sleep 1");
  store();
  run_until_store_runs();
  keeper_->hurry(SIGTERM);
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(record().value("done", false), true);
}

}  // namespace
}  // namespace dl::supervise
