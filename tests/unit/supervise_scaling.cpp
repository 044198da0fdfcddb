// SPDX-License-Identifier: Apache-2.0
// What an attempt measures of its size.
#include <gtest/gtest.h>

#include "launcher/supervise/scaling_watch.h"

namespace dl::supervise {
namespace {

std::vector<Learner> learners(int count) {
  return std::vector<Learner>(static_cast<size_t>(count));
}

// `reports` reports, one a second, each of so many train steps more.
void train(Learner* learner, int reports, int64_t steps) {
  for (int i = 0; i <= reports; ++i) learner->times.add(1000 * i, steps * i);
}

TEST(ScalingWatch, MostLearnersMustHaveShownTheirPace) {
  auto all = learners(3);
  const scaling::Size size{3, 1, 12, 1};
  train(&all[0], 8, 4);
  EXPECT_FALSE(measure(all, 3, size, 7)) << "one of three";
  train(&all[1], 8, 4);
  const auto measured = measure(all, 3, size, 7);
  ASSERT_TRUE(measured);
  EXPECT_DOUBLE_EQ(measured->step_s, 0.25);
  EXPECT_EQ(measured->spread_s, 0);
  EXPECT_EQ(measured->steps, 32);
  EXPECT_EQ(measured->time_s, 7);
  EXPECT_TRUE(measured->size == size);
}

TEST(ScalingWatch, AFewSlowStepsBesideASaveDoNotCount) {
  auto all = learners(1);
  for (int i = 0; i <= 12; ++i) all[0].times.add(i < 10 ? 1000 * i : 5000 * (i - 8), 10 * i);
  const auto measured = measure(all, 1, {1, 1, 1, 1}, 1);
  ASSERT_TRUE(measured);
  EXPECT_DOUBLE_EQ(measured->step_s, 0.1);
}

// Train steps of 0.4 s, seen by somebody who looks each second: 2 or 3 of them.
TEST(ScalingWatch, StepsThatDoNotDivideTheTimeBetweenReportsAreMeasuredAllTheSame) {
  auto all = learners(1);
  for (int i = 0; i <= 10; ++i) all[0].times.add(1000 * i, i * 5 / 2);
  const auto measured = measure(all, 1, {1, 1, 1, 1}, 1);
  ASSERT_TRUE(measured);
  EXPECT_NEAR(measured->step_s, 0.4, 0.001);
}

TEST(ScalingWatch, NothingIsMeasuredOfAProgramThatCountsNoSteps) {
  EXPECT_FALSE(measure(learners(4), 4, {4, 1, 4, 1}, 1));
  auto all = learners(1);
  train(&all[0], 2, 1);
  EXPECT_FALSE(measure(all, 1, {1, 1, 1, 1}, 1)) << "too few";
}

TEST(ScalingWatch, TheRecordHasTheSizeOfThePlanWithoutServers) {
  plan::LaunchPlan plan;
  plan.job_name = "train";
  plan.framework = "pytorch";
  plan.learners.resize(5);
  plan.servers = 1;
  plan.asked = {1, 8};
  plan.nodes.resize(3);
  plan.nodes[0].learners = plan.nodes[1].learners = 2;
  plan.nodes[2].learners = plan.nodes[2].servers = 1;
  record::ScalingRecord record = scaling_record_of(plan);
  EXPECT_TRUE(record.now == (scaling::Size{4, 2, 4, 1}));
  EXPECT_EQ(record.batch, "");
  EXPECT_EQ(record.name, "train");
  plan.job_name.clear();
  plan.command = {"python3", "train.py"};
  EXPECT_EQ(scaling_record_of(plan).name, "python3 train.py") << "without Slurm";
  plan.batch = *parse_batch("16:64:4,rule=linear");
  plan.split = {64, 2};
  record = scaling_record_of(plan);
  EXPECT_TRUE(record.now == (scaling::Size{4, 2, 64, 2}));
  EXPECT_EQ(record.batch, "16:64:4,rule=linear");
}

}  // namespace
}  // namespace dl::supervise
