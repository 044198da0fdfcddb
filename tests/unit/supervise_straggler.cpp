// SPDX-License-Identifier: Apache-2.0
// Learners whose train steps take longer than those of the others.
#include <gtest/gtest.h>

#include "launcher/supervise/straggler.h"

namespace dl::supervise {
namespace {

using Times = std::vector<std::optional<double>>;

std::vector<int> ranks(const std::vector<Straggler>& stragglers) {
  std::vector<int> found;
  for (const Straggler& straggler : stragglers) found.push_back(straggler.rank);
  return found;
}

TEST(StepTimes, GivesTheMedianOfItsWindow) {
  StepTimes times;
  for (int i = 0; i <= 4; ++i) times.add(100 * i, i);
  EXPECT_FALSE(times.median_ms());  // four intervals
  times.add(2000, 5);               // one of 1.6 s
  EXPECT_DOUBLE_EQ(*times.median_ms(), 100);
  // Several train steps in one report.
  for (int i = 1; i <= 20; ++i) times.add(2000 + 1000 * i, 5 + 20 * i);
  EXPECT_DOUBLE_EQ(*times.median_ms(), 50);
}

TEST(StepTimes, BeginsAnewWhereStepsAreDoneAgain) {
  StepTimes times;
  for (int i = 0; i <= 5; ++i) times.add(100 * i, i);
  times.add(600, 2);
  EXPECT_FALSE(times.median_ms());
  for (int i = 1; i <= 5; ++i) times.add(600 + 10 * i, 2 + i);
  EXPECT_DOUBLE_EQ(*times.median_ms(), 10);
}

TEST(StepTimes, ReportsAtOneMomentOrOfTheSameStepAreNoInterval) {
  StepTimes times;
  for (int i = 0; i < 10; ++i) times.add(5, i);
  for (int i = 0; i < 10; ++i) times.add(6 + i, 9);
  EXPECT_FALSE(times.median_ms());
}

TEST(Stragglers, StandOutOfAllLearners) {
  struct {
    Times times;
    std::vector<int> expected;
  } const cases[] = {
      {{}, {}},
      {{100, 200}, {}},                     // two: which is the slow one?
      {{100, std::nullopt, 200}, {}},       // so it is with two that are known
      {{100, 100, 130}, {2}},               // above a quarter
      {{100, 100, 124}, {}},                // not
      {{100, 101, 99, 100, 250}, {4}},      //
      {{100, 140, 80, 120, 60, 160}, {}},   // they differ anyway: MAD 30
      {{100, 140, 80, 120, 60, 300}, {5}},  //
      {{100, 100, 400, 100, 500, std::nullopt}, {2, 4}},
      {{100, 100, 10}, {}},  // faster is no fault
      {{0, 0, 0, 1}, {3}},
  };
  for (const auto& row : cases) EXPECT_EQ(ranks(find_stragglers(row.times)), row.expected);
}

TEST(Stragglers, AreDescribed) {
  EXPECT_EQ(describe(Straggler{3, 180.4, 100, 8}),
            "slow: its train step takes 180 ms, the median of 8 learners is 100 ms");
  EXPECT_EQ(describe(Straggler{3, 12500, 1000, 3}),
            "slow: its train step takes 12.5 s, the median of 3 learners is 1 s");
}

TEST(SlowLearners, AreToldOnceAndOnlyIfItLasts) {
  SlowLearners slow(4);
  const std::vector<Straggler> one{{2, 200, 100, 4}};
  for (int i = 1; i < SlowLearners::kTimes; ++i) EXPECT_TRUE(slow.look(one).empty());
  EXPECT_TRUE(slow.look({}).empty());  // a pause: the count begins again
  for (int i = 1; i < SlowLearners::kTimes; ++i) EXPECT_TRUE(slow.look(one).empty());
  EXPECT_EQ(ranks(slow.look(one)), std::vector<int>{2});
  EXPECT_NE(slow.note(2), "");
  EXPECT_EQ(slow.note(1), "");
  EXPECT_TRUE(slow.look(one).empty());
  EXPECT_TRUE(slow.look({}).empty());
  EXPECT_NE(slow.note(2), "");  // not well yet
  EXPECT_TRUE(slow.look(one).empty());
  for (int i = 0; i < SlowLearners::kTimes; ++i) slow.look({});
  EXPECT_EQ(slow.note(2), "");
}

TEST(SlowLearners, SeveralAtOnce) {
  SlowLearners slow(4);
  std::vector<int> told;
  for (int i = 0; i < SlowLearners::kTimes; ++i) told = ranks(slow.look({{0, 300, 100, 4}, {3, 200, 100, 4}}));
  EXPECT_EQ(told, (std::vector<int>{0, 3}));
}

}  // namespace
}  // namespace dl::supervise
