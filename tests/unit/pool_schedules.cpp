// SPDX-License-Identifier: Apache-2.0
// 160,000 random schedules of a pool whose members join, leave, are killed, lose their connections and cannot save
// their state for a while: no update is lost, none is applied twice, no key has two owners, and each answer is that of
// its own update.
#include <gtest/gtest.h>

#include "launcher/pool/member_core.h"
#include "tests/unit/pool_world.h"

using namespace dl::pool;

namespace {

void run_all(const World::Settings& settings, uint64_t first, int schedules, int least_kills, int least_faults = 0) {
  int kills = 0, faults = 0;
  uint64_t moved = 0;
  for (int i = 0; i < schedules; ++i) {
    World world(settings, first + static_cast<uint64_t>(i));
    const std::string wrong = world.run();
    ASSERT_EQ(wrong, "") << "seed " << first + static_cast<uint64_t>(i);
    kills += world.kills();
    faults += world.faults();
    moved += world.directory().moved();
  }
  EXPECT_GE(kills, least_kills);
  EXPECT_GE(faults, least_faults);
  EXPECT_GT(moved, 0U);  // else the schedules would show nothing
}

}  // namespace

TEST(PoolSchedules, MembersJoinAndLeaveAndConnectionsBreak) {
  World::Settings settings;
  settings.joins = 4;
  settings.leaves = 3;
  run_all(settings, 1, 30000, 0);
}

TEST(PoolSchedules, WithoutCopiesNothingIsLostEitherWhereNobodyIsKilled) {
  World::Settings settings;
  settings.with_copies = false;
  settings.joins = 4;
  settings.leaves = 3;
  run_all(settings, 1000000, 20000, 0);
}

TEST(PoolSchedules, MembersAreKilledOnceEachSlotHasItsCopyAgain) {
  World::Settings settings;
  settings.first = 3;
  settings.kills = 2;
  run_all(settings, 2000000, 30000, 15000);
}

TEST(PoolSchedules, MembersThatWereGivenUpLiveOnAndChangeNothing) {
  World::Settings settings;
  settings.first = 3;
  settings.kills = 2;
  settings.zombies = true;
  run_all(settings, 3000000, 20000, 10000);
}

TEST(PoolSchedules, MembersThatHangAreDoneWithoutAlthoughNoConnectionBreaks) {
  World::Settings settings;
  settings.first = 3;
  settings.kills = 2;
  settings.zombies = settings.hangs = true;
  run_all(settings, 6000000, 20000, 10000);
}

TEST(PoolSchedules, WhenTooManyAreKilledAtOnceClientsAreToldWhatIsLostAndTheRestIsRight) {
  World::Settings settings;
  settings.first = 2;
  settings.kills = 3;
  settings.wild = true;
  run_all(settings, 4000000, 20000, 10000);
}

TEST(PoolSchedules, SlotsThatCannotBeSavedForAWhileStayWhereTheyAre) {
  World::Settings settings;
  settings.first = 3;
  settings.kills = 1;
  settings.save_faults = 4;
  run_all(settings, 5000000, 20000, 5000, 50000);
}
