// SPDX-License-Identifier: Apache-2.0
// When a parameter server applies gradients and answers pulls.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "launcher/collectives/consistency.h"
#include "launcher/collectives/include/dllearner.h"

namespace {

using dl::learner::Consistency;
using dl::learner::shard_begin;
using Apply = Consistency::Apply;
using Ranks = std::vector<int>;

TEST(Consistency, SynchronousAppliesARoundAndLetsAllGoOn) {
  Consistency rules(DLLEARNER_PS_SYNC, 0, 3);
  for (int l = 0; l < 3; ++l) ASSERT_TRUE(rules.pull(l));
  EXPECT_EQ(rules.release(), (Ranks{0, 1, 2}));
  EXPECT_EQ(*rules.push(2), Apply::kNothing);
  ASSERT_TRUE(rules.pull(2));
  EXPECT_EQ(rules.release(), Ranks{});
  EXPECT_FALSE(rules.push(2));  // twice in one train step
  EXPECT_EQ(*rules.push(0), Apply::kNothing);
  EXPECT_EQ(*rules.push(1), Apply::kRound);
  EXPECT_EQ(rules.release(), Ranks{2});
  ASSERT_TRUE(rules.pull(0));
  EXPECT_EQ(rules.release(), Ranks{0});
}

TEST(Consistency, SynchronousDoesNotWaitForWhoLeft) {
  Consistency rules(DLLEARNER_PS_SYNC, 0, 3);
  EXPECT_EQ(*rules.push(0), Apply::kNothing);
  EXPECT_EQ(*rules.push(1), Apply::kNothing);
  ASSERT_TRUE(rules.pull(0));
  EXPECT_EQ(*rules.leave(2), Apply::kRound);
  EXPECT_EQ(rules.release(), Ranks{0});
  EXPECT_FALSE(rules.push(2));
  EXPECT_FALSE(rules.leave(2));
  EXPECT_EQ(*rules.push(0), Apply::kNothing);
  EXPECT_EQ(*rules.leave(1), Apply::kRound);
  EXPECT_EQ(*rules.push(0), Apply::kRound);
  EXPECT_EQ(*rules.leave(0), Apply::kNothing);
  EXPECT_TRUE(rules.all_left());
}

TEST(Consistency, WhoPushedAndLeftIsInTheRound) {
  Consistency rules(DLLEARNER_PS_SYNC, 0, 2);
  EXPECT_EQ(*rules.push(0), Apply::kNothing);
  EXPECT_EQ(*rules.leave(0), Apply::kNothing);
  EXPECT_EQ(*rules.leave(1), Apply::kRound);  // the gradient of learner 0 is not lost
  EXPECT_TRUE(rules.all_left());
}

TEST(Consistency, AsynchronousNeverWaits) {
  Consistency rules(DLLEARNER_PS_ASYNC, 0, 2);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(*rules.push(1), Apply::kThis);
    ASSERT_TRUE(rules.pull(1));
    EXPECT_EQ(rules.release(), Ranks{1});
  }
  EXPECT_EQ(rules.clock(1), 10);
}

TEST(Consistency, BoundedHoldsWhoIsTooFarAhead) {
  Consistency rules(DLLEARNER_PS_BOUNDED, 2, 2);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rules.pull(0));
    EXPECT_EQ(rules.release(), Ranks{0}) << i;
    EXPECT_EQ(*rules.push(0), Apply::kThis);
  }
  ASSERT_TRUE(rules.pull(0));  // three ahead
  EXPECT_EQ(rules.release(), Ranks{});
  EXPECT_FALSE(rules.pull(0));
  EXPECT_EQ(*rules.push(1), Apply::kThis);
  EXPECT_EQ(rules.release(), Ranks{0});
  EXPECT_EQ(*rules.push(0), Apply::kThis);
  ASSERT_TRUE(rules.pull(0));
  EXPECT_EQ(rules.release(), Ranks{});
  EXPECT_EQ(*rules.leave(1), Apply::kNothing);
  EXPECT_EQ(rules.release(), Ranks{0});
}

TEST(Consistency, StrangersAreRefused) {
  Consistency rules(DLLEARNER_PS_ASYNC, 0, 2);
  EXPECT_FALSE(rules.push(2));
  EXPECT_FALSE(rules.pull(-1));
  EXPECT_FALSE(rules.leave(7));
}

// Learners that pull, push and leave at random, as the client does: nobody waits for ever, no bound is broken, and each
// gradient is applied once.
TEST(Consistency, NobodyStarvesWhateverTheOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 600; ++round) {
    const int mode = 1 + round % 3;
    const int learners = 1 + static_cast<int>(random() % 5);
    const auto staleness = static_cast<int64_t>(random() % 3);
    Consistency rules(mode, staleness, learners);
    enum { kPulling, kWaiting, kPushing, kGone };
    std::vector<int> state(static_cast<size_t>(learners), kPulling);
    std::vector<int> left(static_cast<size_t>(learners));
    for (int& steps : left) steps = 1 + static_cast<int>(random() % 6);
    int64_t pushed = 0;
    int64_t applied = 0;
    int64_t in_round = 0;
    const auto count = [&](Apply apply) {
      if (apply == Apply::kThis) ++applied;
      if (apply == Apply::kRound) applied += std::exchange(in_round, 0);
    };
    while (!rules.all_left()) {
      std::vector<int> able;
      for (int l = 0; l < learners; ++l)
        if (state[static_cast<size_t>(l)] == kPulling || state[static_cast<size_t>(l)] == kPushing) able.push_back(l);
      ASSERT_FALSE(able.empty()) << "all wait: mode " << mode << ", staleness " << staleness;
      const int who = able[random() % able.size()];
      int& now = state[static_cast<size_t>(who)];
      if (now == kPulling && left[static_cast<size_t>(who)] == 0) {
        auto apply = rules.leave(who);
        ASSERT_TRUE(apply);
        count(*apply);
        now = kGone;
      } else if (now == kPulling) {
        ASSERT_TRUE(rules.pull(who));
        now = kWaiting;
      } else {
        auto apply = rules.push(who);
        ASSERT_TRUE(apply) << apply.error().text;
        ++pushed;
        if (mode == DLLEARNER_PS_SYNC) ++in_round;
        count(*apply);
        --left[static_cast<size_t>(who)];
        now = kPulling;
      }
      for (const int l : rules.release()) {
        ASSERT_EQ(state[static_cast<size_t>(l)], kWaiting);
        state[static_cast<size_t>(l)] = kPushing;
        for (int other = 0; other < learners && mode == DLLEARNER_PS_BOUNDED; ++other)
          ASSERT_TRUE(state[static_cast<size_t>(other)] == kGone || rules.clock(l) - rules.clock(other) <= staleness);
      }
    }
    ASSERT_EQ(applied, pushed);
  }
}

TEST(Shards, CoverAllEvenly) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{64}, size_t{1000003}})
    for (int servers = 1; servers < 6; ++servers) {
      EXPECT_EQ(shard_begin(count, servers, 0), 0U);
      EXPECT_EQ(shard_begin(count, servers, servers), count);
      for (int s = 0; s < servers; ++s) {
        const size_t size = shard_begin(count, servers, s + 1) - shard_begin(count, servers, s);
        EXPECT_LE(size, count / static_cast<size_t>(servers) + 1);
        EXPECT_GE(size, count / static_cast<size_t>(servers));
      }
    }
}

}  // namespace
