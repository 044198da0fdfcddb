// SPDX-License-Identifier: Apache-2.0
// For how long a run was in which phase.
#include "launcher/use/phases.h"

#include <gtest/gtest.h>

namespace dl::use {
namespace {

double in(const PerPhase& each, Phase phase) {
  return each[static_cast<size_t>(phase)];
}

TEST(Phases, EachTimeBelongsToOnePhase) {
  PhaseClock clock;
  EXPECT_EQ(in(clock.milliseconds(5000), Phase::kWaiting), 0) << "it has not begun";
  clock.enter(Phase::kWaiting, 1000);
  clock.enter(Phase::kStarting, 3000);
  clock.enter(Phase::kTraining, 4000);
  clock.enter(Phase::kTraining, 6000);
  clock.enter(Phase::kSaving, 9000);
  const PerPhase passed = clock.milliseconds(9500);
  EXPECT_EQ(in(passed, Phase::kWaiting), 2000);
  EXPECT_EQ(in(passed, Phase::kStarting), 1000);
  EXPECT_EQ(in(passed, Phase::kTraining), 5000);
  EXPECT_EQ(in(passed, Phase::kSaving), 500) << "it goes on";
}

TEST(Phases, ATimeIsDividedAsThePhasesWere) {
  PhaseClock clock;
  clock.enter(Phase::kTraining, 0);
  clock.enter(Phase::kSaving, 10'000);
  clock.enter(Phase::kTraining, 11'000);
  const PerPhase shares = clock.shares(8000, 12'000);
  EXPECT_DOUBLE_EQ(in(shares, Phase::kTraining), 0.75);
  EXPECT_DOUBLE_EQ(in(shares, Phase::kSaving), 0.25);
  EXPECT_DOUBLE_EQ(in(clock.shares(10'200, 10'300), Phase::kSaving), 1);
  EXPECT_DOUBLE_EQ(in(clock.shares(11'500, 11'500), Phase::kTraining), 1) << "no time at all is of the present phase";
}

TEST(Phases, OfVeryManyChangesTheOldestAreForgottenButNotTheirTime) {
  PhaseClock clock;
  int64_t now = 0;
  for (int i = 0; i < 10'000; ++i) {
    clock.enter(Phase::kTraining, now);
    clock.enter(Phase::kSaving, now += 90);
    now += 10;
  }
  const PerPhase passed = clock.milliseconds(now);
  EXPECT_EQ(in(passed, Phase::kTraining), 900'000);
  EXPECT_EQ(in(passed, Phase::kSaving), 100'000);
  const PerPhase shares = clock.shares(now - 1000, now);
  EXPECT_NEAR(in(shares, Phase::kSaving), 0.1, 1e-9);
  double sum = 0;
  for (const double share : clock.shares(0, now)) sum += share;
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(Phases, AClockThatGoesBackTakesNothingAway) {
  PhaseClock clock;
  clock.enter(Phase::kTraining, 5000);
  clock.enter(Phase::kSaving, 4000);
  for (const double passed : clock.milliseconds(3000)) EXPECT_EQ(passed, 0);
}

}  // namespace
}  // namespace dl::use
