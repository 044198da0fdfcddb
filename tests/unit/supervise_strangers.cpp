// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/strangers.h"

#include <gtest/gtest.h>

namespace dl::supervise {
namespace {

using Ids = std::vector<Strangers::Id>;

TEST(StrangersTest, WhoDoesNotSpeakIsClosedAfterAWhile) {
  Strangers strangers;
  EXPECT_TRUE(strangers.add(1, "10.0.0.1", 0).empty());
  EXPECT_TRUE(strangers.add(2, "10.0.0.2", 5000).empty());
  EXPECT_TRUE(strangers.overdue(Strangers::kToSpeakMs - 1).empty());
  EXPECT_EQ(strangers.overdue(Strangers::kToSpeakMs), Ids{1});
  EXPECT_EQ(strangers.size(), 1U);
  EXPECT_EQ(strangers.overdue(1'000'000), Ids{2});
  EXPECT_EQ(strangers.size(), 0U);
}

TEST(StrangersTest, WhoHasSpokenIsNoStrangerAnyMore) {
  Strangers strangers;
  strangers.add(1, "10.0.0.1", 0);
  strangers.remove(1);
  strangers.remove(1);
  strangers.remove(77);
  EXPECT_TRUE(strangers.overdue(1'000'000).empty());
}

TEST(StrangersTest, OneAddressMakesPlaceAtItsOwnCost) {
  Strangers strangers;
  strangers.add(1, "honest", 0);
  for (Strangers::Id id = 10; id < 10 + Strangers::kOfOnePeer; ++id) EXPECT_TRUE(strangers.add(id, "flood", 0).empty());
  EXPECT_EQ(strangers.add(100'000, "flood", 0), Ids{10});
  EXPECT_EQ(strangers.add(100'001, "flood", 0), Ids{11});
  EXPECT_EQ(strangers.size(), Strangers::kOfOnePeer + 1);
}

TEST(StrangersTest, AgentsOfManyLearnersMayAllComeFromOneAddress) {
  Strangers strangers;
  strangers.expect(1000);
  for (Strangers::Id id = 1; id <= 1000 + Strangers::kOfOnePeer; ++id)
    EXPECT_TRUE(strangers.add(id, "fat node", 0).empty()) << id;
  EXPECT_EQ(strangers.add(100'000, "fat node", 0), Ids{1});
}

TEST(StrangersTest, ManyAddressesMakePlaceAtTheCostOfTheBusiest) {
  Strangers strangers;
  strangers.add(1, "honest", 0);
  Strangers::Id id = 10;
  for (size_t peer = 0; strangers.size() < Strangers::kInAll; ++peer)
    for (size_t i = 0; i < Strangers::kOfOnePeer && strangers.size() < Strangers::kInAll; ++i)
      EXPECT_TRUE(strangers.add(id++, "flood" + std::to_string(peer), 0).empty());
  const Ids gone = strangers.add(id, "new", 0);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_NE(gone[0], 1U);
  EXPECT_EQ(strangers.size(), Strangers::kInAll);
}

}  // namespace
}  // namespace dl::supervise
