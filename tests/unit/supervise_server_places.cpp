// SPDX-License-Identifier: Apache-2.0
// Where the servers of an elastic pool are started, and what their ends mean; by hand, and with random ends.
#include "launcher/supervise/server_places.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace dl::supervise {
namespace {

using End = ServerPlaces::End;

// Places 0 and 1 are on node 0, 2 and 3 on node 1.
ServerPlaces four(int min, int free = 4) {
  ServerPlaces places({0, 0, 1, 1}, min);
  for (int place = 0; place < free; ++place) places.free(place);
  return places;
}

TEST(ServerPlacesTest, AsManyStartAsAreWantedWhereTheFewestRun) {
  ServerPlaces places = four(1);
  EXPECT_EQ(places.start({0, 0, 1}, 0), std::vector<int>({0}));
  EXPECT_TRUE(places.start({0, 0, 1}, 50).empty()) << "it is on its way";
  EXPECT_EQ(places.start({1, 0, 3}, 100), std::vector<int>({2, 1}));
  EXPECT_EQ(places.start({3, 0, 9}, 200), std::vector<int>({3})) << "there are no more places";
  EXPECT_EQ(places.running(), 4);
}

TEST(ServerPlacesTest, OnlyWhereAnAgentWaits) {
  ServerPlaces places = four(2, 1);
  EXPECT_EQ(places.start({0, 0, 2}, 0), std::vector<int>({0}));
  places.free(3);
  EXPECT_EQ(places.start({1, 0, 2}, 50), std::vector<int>({3}));
}

TEST(ServerPlacesTest, OneThatWasToldToLeaveIsReplacedOnlyIfMoreAreWantedMeanwhile) {
  ServerPlaces places = four(1);
  EXPECT_EQ(places.start({0, 0, 2}, 0).size(), 2U);
  EXPECT_TRUE(places.start({1, 1, 1}, 100).empty());
  EXPECT_EQ(places.start({1, 1, 2}, 150), std::vector<int>({1})) << "of two that run, one is about to leave";
  EXPECT_EQ(places.ended(2, true, {1, 1, 2}, 200), End::kLeft);
  EXPECT_EQ(places.running(), 2);
}

TEST(ServerPlacesTest, BeforeAllHaveJoinedAFailureIsTheRuns) {
  ServerPlaces places = four(2);
  EXPECT_EQ(places.start({0, 0, 2}, 0).size(), 2U);
  EXPECT_EQ(places.ended(0, true, {1, 0, 2}, 100), End::kFailsRun) << "a program that is no server";
  places = four(1);
  EXPECT_EQ(places.start({0, 0, 1}, 0).size(), 1U);
  EXPECT_EQ(places.ended(0, false, {0, 0, 1}, 100), End::kFailsRun);
}

TEST(ServerPlacesTest, OneThatIsKilledIsReplacedAfterAPause) {
  ServerPlaces places = four(1);
  EXPECT_EQ(places.start({0, 0, 2}, 0).size(), 2U);
  EXPECT_TRUE(places.start({2, 0, 2}, 1000).empty());
  EXPECT_EQ(places.ended(0, false, {2, 0, 2}, 2000), End::kFailed);
  EXPECT_TRUE(places.start({1, 0, 2}, 2900).empty());
  EXPECT_EQ(places.start({1, 0, 2}, 3000), std::vector<int>({1})) << "the agent of place 0 has not come back";
  places.free(0);
  EXPECT_EQ(places.ended(1, false, {2, 0, 2}, 4000), End::kFailed);
  EXPECT_TRUE(places.start({1, 0, 2}, 5900).empty()) << "the pause has doubled";
  EXPECT_EQ(places.start({1, 0, 2}, 6000), std::vector<int>({0}));
}

TEST(ServerPlacesTest, OneThatEndsByItselfSoonAfterItsStartHasFailed) {
  ServerPlaces places = four(1);
  EXPECT_EQ(places.start({0, 0, 2}, 0).size(), 2U);
  EXPECT_EQ(places.ended(0, true, {2, 0, 2}, 500), End::kFailed);
  EXPECT_EQ(places.ended(2, true, {1, 0, 2}, ServerPlaces::kServedMs), End::kLeft);
}

TEST(ServerPlacesTest, AfterManyFailuresInARowNoneIsStarted) {
  ServerPlaces places = four(1);
  EXPECT_EQ(places.start({0, 0, 2}, 0).size(), 2U);
  int64_t now = 1000;
  for (int failure = 1; failure <= ServerPlaces::kMostFailures; ++failure) {
    EXPECT_EQ(places.ended(2, false, {2, 0, 2}, now),
              failure < ServerPlaces::kMostFailures ? End::kFailed : End::kTooOften);
    places.free(2);
    now += 20'000;
    EXPECT_EQ(places.start({1, 0, 2}, now).size(), failure < ServerPlaces::kMostFailures ? 1U : 0U) << failure;
    if (places.runs(1)) {  // the other place of node 1 is as good
      EXPECT_EQ(places.ended(1, true, {2, 1, 1}, now), End::kLeft);
      places.free(1);
      EXPECT_EQ(places.start({1, 0, 2}, now).size(), 1U);
    }
    now += 100;
  }
  EXPECT_EQ(places.running(), 1);
  EXPECT_EQ(places.ended(0, false, {1, 0, 2}, now + 100), End::kFailsRun) << "none is left, and none would come";
}

TEST(ServerPlacesTest, OneThatHasServedForAWhileEndsTheRow) {
  ServerPlaces places = four(1);
  EXPECT_EQ(places.start({0, 0, 2}, 0).size(), 2U);
  int64_t now = 1000;
  for (int failure = 0; failure < 3 * ServerPlaces::kMostFailures; ++failure) {
    const int place = places.runs(2) ? 2 : places.runs(3) ? 3 : 1;
    EXPECT_EQ(places.ended(place, false, {2, 0, 2}, now), End::kFailed) << failure;
    places.free(place);
    now += 20'000;
    EXPECT_EQ(places.start({1, 0, 2}, now).size(), 1U) << failure;
    now += ServerPlaces::kSoundMs;
  }
}

TEST(ServerPlacesTest, APlaceWhoseAgentIsLostIsNotUsedAgain) {
  ServerPlaces places = four(1);
  EXPECT_EQ(places.start({0, 0, 1}, 0), std::vector<int>({0}));
  EXPECT_TRUE(places.lost(2, {1, 0, 1}, 100).none);
  EXPECT_TRUE(places.lost(3, {1, 0, 1}, 100).none);
  places.free(2);
  EXPECT_EQ(places.start({1, 0, 4}, 200), std::vector<int>({1}));
  const ServerPlaces::Loss loss = places.lost(0, {2, 0, 4}, 300);
  EXPECT_FALSE(loss.none);
  EXPECT_EQ(loss.end, End::kFailed);
  EXPECT_TRUE(places.start({1, 0, 4}, 100'000).empty());
  EXPECT_EQ(places.running(), 1);
}

// Of a node's twelve places each second one runs a server, and so on the other node.
ServerPlaces twelve_of_two_nodes(int min) {
  std::vector<int> nodes;
  for (int place = 0; place < 24; ++place) nodes.push_back(place % 2);
  ServerPlaces places(nodes, min);
  for (int place = 0; place < 24; ++place) places.free(place);
  EXPECT_EQ(places.start({0, 0, 12}, 0).size(), 12U);
  EXPECT_TRUE(places.start({12, 0, 12}, 1000).empty());
  return places;
}

TEST(ServerPlacesTest, TheServersOfALostNodeAreOneFailure) {
  for (const int min : {4, 8}) {
    ServerPlaces places = twelve_of_two_nodes(min);
    int64_t now = 60'000;
    int lost = 0;
    for (int place = 1; place < 24; place += 2, now += 50) {
      const ServerPlaces::Loss loss = places.lost(place, {12 - lost, 0, 12}, now);
      EXPECT_EQ(loss.end, End::kFailed) << place;
      lost += loss.none ? 0 : 1;
    }
    EXPECT_EQ(lost, 6);
    EXPECT_TRUE(places.start({6, 0, 12}, now).empty()) << "the pause lasts";
    EXPECT_EQ(places.start({6, 0, 12}, 61'000).size(), 6U) << "the other node has free places";
    // It was one of five.
    for (int failure = 2; failure < ServerPlaces::kMostFailures; ++failure) {
      now = 70'000 + 20'000 * failure;
      EXPECT_EQ(places.ended(0, false, {12, 0, 12}, now), End::kFailed) << failure;
      places.free(0);
      EXPECT_EQ(places.start({11, 0, 12}, now + 19'000).size(), 1U);
    }
  }
}

TEST(ServerPlacesTest, AfterALongPauseServersAreStartedAgain) {
  ServerPlaces places = four(1);
  EXPECT_EQ(places.start({0, 0, 2}, 0).size(), 2U);
  int64_t now = 1000;
  const auto fail = [&] {
    const int place = places.runs(2) ? 2 : 1;
    const End end = places.ended(place, false, {2, 0, 2}, now);
    places.free(place);
    return end;
  };
  for (int failure = 1; failure < ServerPlaces::kMostFailures; ++failure) {
    EXPECT_EQ(fail(), End::kFailed);
    now += 20'000;
    EXPECT_EQ(places.start({1, 0, 2}, now).size(), 1U);
  }
  EXPECT_EQ(fail(), End::kTooOften);
  EXPECT_TRUE(places.start({1, 0, 2}, now + ServerPlaces::kAgainMs - 1).empty());
  now += ServerPlaces::kAgainMs;
  EXPECT_EQ(places.not_before_ms(), now);
  EXPECT_EQ(places.start({1, 0, 2}, now).size(), 1U);
  // One that fails again is the last for as long.
  now += 100;
  EXPECT_EQ(fail(), End::kTooOften);
  EXPECT_TRUE(places.start({1, 0, 2}, now + ServerPlaces::kAgainMs - 1).empty());
  now += ServerPlaces::kAgainMs;
  EXPECT_EQ(places.start({1, 0, 2}, now).size(), 1U);
  // One that serves ends the row.
  now += ServerPlaces::kSoundMs;
  EXPECT_TRUE(places.start({2, 0, 2}, now).empty());
  EXPECT_EQ(fail(), End::kFailed);
}

TEST(ServerPlacesTest, WhereFewerPlacesAreLeftThanServersAreNeededTheRunFails) {
  ServerPlaces places = four(2);
  EXPECT_EQ(places.start({0, 0, 2}, 0), std::vector<int>({0, 2}));
  EXPECT_TRUE(places.lost(3, {2, 0, 2}, 100).none);
  EXPECT_EQ(places.lost(2, {2, 0, 2}, 150).end, End::kFailed) << "there is place 1";
  EXPECT_EQ(places.left(), 2);
  EXPECT_EQ(places.start({1, 0, 2}, 1150), std::vector<int>({1}));
  EXPECT_EQ(places.ended(0, false, {2, 0, 2}, 5000), End::kFailed) << "its agent comes back";
  const ServerPlaces::Loss loss = places.lost(0, {1, 0, 2}, 5100);
  EXPECT_TRUE(loss.none);
  EXPECT_EQ(loss.end, End::kFailsRun) << "it does not";
}

// Whatever the order of ends, never more run than are wanted beside those that leave, or than there are places.
TEST(ServerPlacesTest, RandomEndsAndWishes) {
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    const int count = 1 + below(6), min = 1 + below(count);
    std::vector<int> nodes;
    for (int place = 0; place < count; ++place) nodes.push_back(below(3));
    ServerPlaces places(nodes, min);
    bool over = false;
    int64_t now = 0;
    for (int turn = 0; turn < 200 && !over; ++turn) {
      now += below(4000);
      ServerPlaces::Pool pool;
      pool.wanted = min + below(count - min + 1);
      pool.members = below(places.running() + 1);
      pool.leaving = below(places.running() - pool.members + 1);
      if (below(3) == 0) places.free(below(count));
      for (const int place : places.start(pool, now)) EXPECT_TRUE(places.runs(place));
      EXPECT_LE(places.running(), count);
      const int place = below(count);
      if (places.runs(place) && below(4) == 0) {
        const bool lost = below(10) == 0;
        const End end = lost ? places.lost(place, pool, now).end : places.ended(place, below(2) == 0, pool, now);
        EXPECT_FALSE(places.runs(place));
        over = end == End::kFailsRun;
      }
    }
  }
}

Failure killed(int server) {
  Failure failure;
  failure.server = server;
  failure.kind = Failure::Kind::kSignal;
  failure.signal = 9;
  return failure;
}

TEST(LostStateTest, TheFailureThatCameWithItIsTheCauseInWhateverOrderTheyAreHeardOf) {
  LostState state;
  state.failed(killed(1), 1000);
  EXPECT_FALSE(state.cause(0, 1100));
  EXPECT_EQ(state.cause(8, 1200)->server, 1);
  state = {};
  EXPECT_FALSE(state.cause(8, 1000)) << "the failure is awaited";
  state.failed(killed(2), 1100);
  EXPECT_EQ(state.cause(8, 1150)->server, 2);
}

TEST(LostStateTest, AnOldFailureIsNotBlamed) {
  LostState state;
  state.failed(killed(1), 1000);
  EXPECT_FALSE(state.cause(8, 60'000));
  state.failed(killed(2), 60'050);
  EXPECT_EQ(state.cause(8, 60'100)->server, 2);
}

TEST(LostStateTest, WhereNoServerHasEndedOneIsSaidToHang) {
  LostState state;
  EXPECT_FALSE(state.cause(8, 1000));
  EXPECT_FALSE(state.cause(8, 1000 + LostState::kEndMs - 1));
  const auto cause = state.cause(8, 1000 + LostState::kEndMs);
  ASSERT_TRUE(cause);
  EXPECT_EQ(describe(*cause), "a server of the pool hangs: the pool has lost the state of 8 of its 1024 slots");
}

}  // namespace
}  // namespace dl::supervise
