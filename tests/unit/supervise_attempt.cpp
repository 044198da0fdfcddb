// SPDX-License-Identifier: Apache-2.0
// An attempt is a value: what its learners report, and that another one begins with nothing of it.
#include "launcher/supervise/attempt.h"

#include <gtest/gtest.h>

namespace dl::supervise {
namespace {

using namespace protocol;

plan::LaunchPlan plan_of(int learners) {
  plan::LaunchPlan plan;
  for (int rank = 0; rank < learners; ++rank) {
    plan::PlannedNode node;
    node.name = "n" + std::to_string(rank);
    plan.nodes.push_back(node);
    plan::PlannedLearner learner;
    learner.rank = learner.node = rank;
    plan.learners.push_back(learner);
  }
  return plan;
}

Progress at_step(int64_t step, int64_t saved = -1) {
  Progress progress;
  progress.state = ProgressPage::kTraining;
  progress.step = step;
  progress.saved_step = saved;
  return progress;
}

TEST(AttemptTest, ItBeginsWithItsLearnersWhereTheyArePlannedToBe) {
  Attempt attempt(plan_of(2), {}, 1000, 1789000000000);
  ASSERT_EQ(attempt.learners.size(), 2U);
  EXPECT_EQ(attempt.learners[1].host, "n1");
  EXPECT_FALSE(attempt.all_said_hello());
  attempt.learners[0].said_hello = attempt.learners[1].said_hello = true;
  EXPECT_TRUE(attempt.all_said_hello());
  attempt.learners[0].started = attempt.learners[1].ended = true;
  EXPECT_TRUE(attempt.all_started());
  EXPECT_FALSE(attempt.all_ended());
  attempt.learners[0].ended = true;
  EXPECT_TRUE(attempt.all_ended());
}

TEST(AttemptTest, NoPeriodicSaveIsDueBeforeAllLearnersOfThisAttemptRun) {
  Attempt first(plan_of(1), {}, 1000, 0);
  EXPECT_FALSE(first.save_due(100'000, 5000));
  EXPECT_TRUE(first.all_run(2000));
  EXPECT_FALSE(first.all_run(3000)) << "told once";
  EXPECT_FALSE(first.save_due(6999, 5000));
  EXPECT_TRUE(first.save_due(7000, 5000));
  first.save_tried(7000);
  EXPECT_FALSE(first.save_due(11000, 5000));
  EXPECT_DOUBLE_EQ(first.running_s(12000), 10);

  Attempt second(plan_of(1), {}, 60'000, 0);
  EXPECT_FALSE(second.save_due(70'000, 5000)) << "its learners still start";
  EXPECT_DOUBLE_EQ(second.running_s(70'000), 0) << "the time between the attempts is none of training";
  EXPECT_TRUE(second.all_run(71'000));
  EXPECT_FALSE(second.save_due(75'000, 5000));
}

TEST(AttemptTest, TheSlowestLearnerTellsHowLongASaveTakes) {
  Attempt attempt(plan_of(2), {}, 1000, 0);
  Progress slow = at_step(10);
  slow.save_ms = 4000;
  slow.local_ms = 300;
  slow.cost_ms = 90;
  Progress quick = at_step(10);
  quick.save_ms = 2500;
  quick.cost_ms = 120;
  attempt.progressed(0, slow, 2000);
  attempt.progressed(1, quick, 2000);
  EXPECT_EQ(attempt.save_times().save_ms, 4000U);
  EXPECT_EQ(attempt.save_times().local_ms, 300U);
  EXPECT_DOUBLE_EQ(attempt.save_costs().cost_s, 0.12);
  slow.step = 14;
  attempt.progressed(0, slow, 2400);
  EXPECT_EQ(attempt.save_times().step_ms, 100U) << "four train steps in 400 ms";
}

TEST(AttemptTest, ASaveIsNewsOncePerLearnerAndPutsOffTheNext) {
  Attempt attempt(plan_of(2), {}, 1000, 0);
  attempt.all_run(1000);
  EXPECT_FALSE(attempt.progressed(0, at_step(3), 2000));
  EXPECT_EQ(attempt.progressed(0, at_step(5, 5), 5500), 5);
  EXPECT_FALSE(attempt.progressed(0, at_step(6, 5), 5600));
  EXPECT_EQ(attempt.newest_saved_step(), 5);
  EXPECT_FALSE(attempt.save_due(9000, 5000));
  EXPECT_TRUE(attempt.learners[0].ever_attached);
}

TEST(AttemptTest, AnAnswerToARequestTellsWhereALearnerStands) {
  Attempt attempt(plan_of(1), {}, 1000, 0);
  attempt.progressed(0, at_step(7), 2000);
  StepReport report;
  report.attached = true;
  report.state = ProgressPage::kSaving;
  report.step = 6;
  attempt.stands_at(0, report);
  EXPECT_EQ(attempt.learners[0].step, 7) << "an older word";
  EXPECT_EQ(attempt.learners[0].page_state, ProgressPage::kSaving);
}

}  // namespace
}  // namespace dl::supervise
