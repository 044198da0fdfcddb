// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "slurm-plugin/policyd/memory.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using policy::Charge;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;
using testing::site;

TEST(CheckpointTimesTest, TheStepIsThatOfDlrun) {
  EXPECT_EQ(saved_step("dl:PROCESSING attempt=1 step=40 dir=/x reason=a step=7"), 40);
  EXPECT_EQ(saved_step("my step=9 | dl:PROCESSING attempt=1 step=12"), 12);
  for (const char* text : {"", "step=9", "dl:PROCESSING attempt=1", "dl:PROCESSING step=", "dl:X step=-3",
                           "dl:X step=99999999999999999999", "dl:X step=7x"})
    EXPECT_EQ(saved_step(text), -1) << text;
}

TEST(CheckpointTimesTest, ASaveIsNotedWhenTheStepGrew) {
  CheckpointTimes times;
  auto records = cluster(1, 2);
  auto& job = add_running(&records, 1, label("nlp", 2, Charge::kBorrowed), "n1", {2});
  const auto checkpoint_after = [&](int seconds, const char* comment) {
    records.now_s = kNow + seconds;
    job.comment = comment;
    auto view = observe::view_cluster(site(), records, {});
    times.update(records, &view);
    return view.state.jobs[0].checkpoint_s - kNow;
  };
  EXPECT_EQ(checkpoint_after(0, "dl:PROCESSING step=10"), -1000);  // when that was is not known
  EXPECT_EQ(checkpoint_after(10, "dl:PROCESSING step=10"), -1000);
  EXPECT_EQ(checkpoint_after(20, "dl:PROCESSING step=20"), 20);
  EXPECT_EQ(checkpoint_after(30, "dl:PROCESSING step=20"), 20);
  EXPECT_EQ(checkpoint_after(40, "dl:PROCESSING step=5"), 20);  // a step that fell is no save
  job.start_s = kNow + 45;                                      // the next attempt
  EXPECT_EQ(checkpoint_after(50, "dl:PROCESSING step=30"), 45);
}

TEST(StuckJobsTest, WhatSlurmDoesNotStartIsPassedOverForLongerAndLonger) {
  StuckJobs stuck;
  auto records = cluster(1, 2);
  add_pending(&records, 1, label("vision", 2, Charge::kOwn));
  int64_t passed = 0;
  std::vector<int64_t> spells;
  bool before = false;
  for (int second = 0; second < 3000; second += 5) {
    records.now_s = kNow + second;
    observe::ViewOptions options;
    options.passed_over = stuck.passed_over(records.now_s);
    const bool now = !options.passed_over.empty();
    if (now && !before) spells.push_back(0);
    if (now) spells.back() += 5;
    passed += now ? 5 : 0;
    before = now;
    const auto view = observe::view_cluster(site(), records, options);
    EXPECT_EQ(view.aside.size(), now ? 1U : 0U);
    stuck.update(view, policy::decide(view.state));
  }
  ASSERT_GE(spells.size(), 3U);
  EXPECT_NEAR(static_cast<double>(spells[0]), 300, 10);
  EXPECT_NEAR(static_cast<double>(spells[1]), 600, 10);
  EXPECT_NEAR(static_cast<double>(spells[2]), 1200, 10);
}

TEST(StuckJobsTest, WhatWaitsForGpusIsNotStuck) {
  StuckJobs stuck;
  auto records = cluster(1, 2);
  add_running(&records, 1, label("vision", 2, Charge::kOwn), "n1", {2});
  add_pending(&records, 2, label("nlp", 2, Charge::kOwn));
  for (int second = 0; second < 600; second += 10) {
    records.now_s = kNow + second;
    const auto view = observe::view_cluster(site(), records, {});
    stuck.update(view, policy::decide(view.state));
    EXPECT_TRUE(stuck.passed_over(records.now_s).empty());
  }
}

}  // namespace
}  // namespace dl::policyd
