// SPDX-License-Identifier: Apache-2.0
// What a running job is told about its size, and which jobs a size is chosen for.
#include "slurm-plugin/policy/sizes/resize_order.h"

#include <gtest/gtest.h>

#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

class ResizeOrderTest : public ::testing::Test {
 protected:
  ResizeOrderTest() : state_(cluster(1, 8)) {
    add_tenant(&state_, "a", 8);
    Job& job = add_running(&state_, 0, {{0, 2}}, Charge::kOwn);
    job.min_learners = 1;
    job.max_learners = 4;
    job.start_s = state_.now_s - 600;
  }
  Job& job() { return state_.jobs[0]; }
  ResizeOrder order(int learners, bool claimed = false) {
    return resize_order(state_, job(), told_, claimed, learners, {60, 5});
  }
  ResizeStep step(int learners, bool claimed = false) { return order(learners, claimed).step; }

  ClusterState state_;
  std::optional<Yield> told_;
};

TEST_F(ResizeOrderTest, IsAskedOnceWaitedForAndWithdrawn) {
  EXPECT_EQ(step(0), ResizeStep::kNothing);
  EXPECT_EQ(step(2), ResizeStep::kNothing) << "it has that size";
  EXPECT_EQ(step(4, true), ResizeStep::kNothing) << "a claim comes first";
  const ResizeOrder asked = order(4);
  ASSERT_EQ(asked.step, ResizeStep::kAsk);
  EXPECT_EQ(asked.yield, (Yield{job().id, state_.now_s + 60, 4}));
  EXPECT_EQ(asked.size, (ChosenSize{4, job().submit_s}));
  told_ = asked.yield;
  EXPECT_EQ(step(3), ResizeStep::kWait);
  EXPECT_EQ(step(3, true), ResizeStep::kNothing) << "a claim comes first";
  told_->deadline_s = state_.now_s - 5;
  EXPECT_EQ(step(0), ResizeStep::kWait) << "Slurm takes KillWait to end it";
  told_->deadline_s = state_.now_s - 6;
  EXPECT_EQ(step(0), ResizeStep::kWithdraw);
  told_->deadline_s = state_.now_s + 30;
  job().start_s = state_.now_s;
  EXPECT_EQ(step(0), ResizeStep::kWithdraw) << "it has started anew";
}

TEST_F(ResizeOrderTest, OneThatAClaimHasAskedIsAskedNothingElse) {
  told_ = Yield{77, state_.now_s + 30, 1};
  EXPECT_EQ(step(4), ResizeStep::kNothing);
  EXPECT_FALSE(resizes_itself(told_, job().id));
  EXPECT_FALSE(resizes_itself(std::nullopt, job().id));
}

TEST_F(ResizeOrderTest, OneThatRefusedIsLeftAloneForAnHour) {
  ResizeRefusals refusals;
  const int64_t now_s = state_.now_s;
  refusals.look(job(), {job().id, now_s, 4}, now_s);
  refusals.look(job(), {77, now_s - 100, 4}, now_s);
  EXPECT_FALSE(refusals.refused(job().id, now_s)) << "its time is not over, or a claim has asked";
  refusals.look(job(), {job().id, now_s - 1, 4}, now_s);
  EXPECT_TRUE(refusals.refused(job().id, now_s));
  EXPECT_FALSE(refusals.refused(job().id + 1, now_s));
  refusals.tidy(now_s + ResizeRefusals::kRefusedS - 1);
  EXPECT_TRUE(refusals.refused(job().id, now_s + ResizeRefusals::kRefusedS - 1));
  EXPECT_FALSE(refusals.refused(job().id, now_s + ResizeRefusals::kRefusedS));
  refusals.tidy(now_s + ResizeRefusals::kRefusedS);
  EXPECT_FALSE(refusals.refused(job().id, now_s));
}

TEST_F(ResizeOrderTest, ASizeIsChosenForThoseThatWaitAndThoseThatHear) {
  EXPECT_TRUE(may_choose_size(job(), true, told_, false));
  EXPECT_FALSE(may_choose_size(job(), false, told_, false)) << "without dlrun";
  EXPECT_FALSE(may_choose_size(job(), true, told_, true)) << "it has refused";
  told_ = Yield{77, state_.now_s + 30, 1};
  EXPECT_FALSE(may_choose_size(job(), true, told_, false)) << "it yields";
  job().running = false;
  EXPECT_TRUE(may_choose_size(job(), false, told_, true));
}

}  // namespace
}  // namespace dl::policy::testing
