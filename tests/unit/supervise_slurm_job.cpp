// SPDX-License-Identifier: Apache-2.0
// What dlrun knows of its job before and after Slurm's first answer, and without Slurm. What Slurm itself answers is
// tried in tests/cluster.
#include "launcher/supervise/slurm_job.h"

#include <gtest/gtest.h>

#include <string>

namespace dl::supervise {
namespace {

class SlurmJobTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(uv_loop_init(&loop_), 0); }
  void TearDown() override {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
  }
  uv_loop_t loop_{};
  int heard_ = 0;
};

TEST_F(SlurmJobTest, WithoutSlurmTheAnswerIsAtOnceThatNothingIsKnown) {
  SlurmJob job(&loop_, "", [this](const slurm_cli::JobInfo& /*info*/) { ++heard_; });
  int answers = 0;
  job.ask([&](const SlurmJob::Answer& answer) {
    ++answers;
    EXPECT_FALSE(answer);
  });
  EXPECT_EQ(answers, 1);
  job.ask_kill_wait([&](int64_t /*seconds*/) { ++answers; });
  EXPECT_TRUE(job.idle());
  EXPECT_EQ(answers, 1) << "nobody was asked for KillWait";
  EXPECT_EQ(heard_, 0);
  EXPECT_FALSE(job.can_requeue());
  EXPECT_FALSE(job.may_be_requeued());
}

TEST_F(SlurmJobTest, AJobMayBeRequeuedUntilSlurmSaysThatItMayNot) {
  struct Row {
    bool batch, requeue, can;
  };
  for (const Row& row : {Row{true, true, true}, Row{true, false, false}, Row{false, true, false}}) {
    SlurmJob job(&loop_, "7", [this](const slurm_cli::JobInfo& /*info*/) { ++heard_; });
    EXPECT_FALSE(job.can_requeue()) << "Slurm has not answered";
    EXPECT_TRUE(job.may_be_requeued()) << "Slurm has not answered";
    slurm_cli::JobInfo info;
    info.batch = row.batch;
    info.requeue = row.requeue;
    job.learn(info);
    EXPECT_EQ(job.can_requeue(), row.can);
    EXPECT_EQ(job.may_be_requeued(), row.can);
  }
}

TEST_F(SlurmJobTest, WhatIsPostedIsDoneInItsOrderAndOfOneKeyOnlyTheNewest) {
  SlurmJob job(&loop_, "7", [this](const slurm_cli::JobInfo& /*info*/) { ++heard_; });
  std::string done;
  // None of these sends anything to Slurm.
  const auto nothing = [](const SlurmJob::Send& /*send*/) { return true; };
  job.run_step({"true"}, std::chrono::seconds(20), [&] { done += "a"; });
  job.set_comment(nothing, [&](bool ok) { done += ok ? "b" : "?"; });
  job.set_comment(nothing, [&](bool ok) { done += ok ? "c" : "?"; });
  EXPECT_FALSE(job.idle());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(job.idle());
  EXPECT_EQ(done, "ac");
}

}  // namespace
}  // namespace dl::supervise
