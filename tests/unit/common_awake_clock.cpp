// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/base/awake_clock.h"

namespace dl {
namespace {

TEST(AwakeClock, GoesWithTheOtherClockWhileItIsLookedAt) {
  AwakeClock clock;
  EXPECT_EQ(clock.at(7000), 7000);
  for (int64_t now = 7000; now <= 9000; now += 50) EXPECT_EQ(clock.at(now), now);
}

TEST(AwakeClock, AnHourInWhichNobodyLookedIsAMoment) {
  AwakeClock clock;
  clock.at(7000);
  EXPECT_EQ(clock.at(7000 + 3600 * 1000), 7000 + AwakeClock::kMostMs);
  EXPECT_EQ(clock.at(7100 + 3600 * 1000), 7100 + AwakeClock::kMostMs);
}

TEST(AwakeClock, ComesOnAlsoWhereEachLookIsLate) {
  AwakeClock clock;
  int64_t awake = clock.at(0);
  for (int64_t now = 2000; now <= 20000; now += 2000) {
    EXPECT_GT(clock.at(now), awake);
    awake = clock.at(now);
  }
}

TEST(AwakeClock, NeverGoesBack) {
  AwakeClock clock;
  clock.at(7000);
  EXPECT_EQ(clock.at(6000), 7000);
  EXPECT_EQ(clock.at(7010), 7010);
}

}  // namespace
}  // namespace dl
