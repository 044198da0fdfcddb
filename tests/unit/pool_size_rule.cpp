// SPDX-License-Identifier: Apache-2.0
// The size of a pool: within its range, not before the wish has lasted, and never to and fro without end.
#include "launcher/pool/size_rule.h"

#include <gtest/gtest.h>

#include <random>

using namespace dl::pool;

namespace {

SizeRule rule_of(int min, int max) {
  SizeRule rule;
  rule.min = min;
  rule.max = max;
  return rule;
}

// Looks at a pool whose members come and go at once, and each of which wants wish(size); returns how often it changed.
template <typename Wish>
int changes(const SizeRule& rule, int looks, Wish wish, int* last) {
  SizeMemory memory;
  int size = rule.min, changed = 0;
  for (int look = 0; look < looks; ++look) {
    const int next = next_size(rule, std::vector<int>(static_cast<size_t>(size), wish(size)), size, &memory);
    EXPECT_GE(next, rule.min);
    EXPECT_LE(next, rule.max);
    if (next != size) ++changed;
    size = next;
  }
  if (last != nullptr) *last = size;
  return changed;
}

}  // namespace

TEST(PoolSize, TheMedianDecidesSoThatOneMemberThatIsOutOfItsMindDoesNot) {
  EXPECT_EQ(median_wish({3}, 2), 3);
  EXPECT_EQ(median_wish({2, 1000, 2}, 2), 2);
  EXPECT_EQ(median_wish({2, 5}, 2), 2);
  EXPECT_EQ(median_wish({3, 5}, 2), 3);
  EXPECT_EQ(median_wish({1, 5}, 2), 2);
  EXPECT_EQ(median_wish({-7, -3, -5}, 2), -5);
}

TEST(PoolSize, ItGrowsToALastingWishAndIsKeptWithinItsRange) {
  int size = 0;
  EXPECT_EQ(changes(
                rule_of(1, 8), 50, [](int) { return 4; }, &size),
            1);
  EXPECT_EQ(size, 4);
  changes(
      rule_of(2, 8), 50, [](int) { return 1000000; }, &size);
  EXPECT_EQ(size, 8);
  changes(
      rule_of(2, 8), 50, [](int) { return -5; }, &size);
  EXPECT_EQ(size, 2);
}

TEST(PoolSize, AWishThatDoesNotLastChangesNothing) {
  SizeMemory memory;
  const SizeRule rule = rule_of(1, 8);
  for (int look = 0; look < 1000; ++look) ASSERT_EQ(next_size(rule, {look % 2 == 0 ? 6 : 1}, 1, &memory), 1) << look;
}

TEST(PoolSize, MembersThatAreStillStartingAreNotAskedForTwice) {
  SizeMemory memory;
  const SizeRule rule = rule_of(1, 8);
  for (int look = 0; look < 100; ++look) {
    const int size = next_size(rule, {3}, 1, &memory);
    ASSERT_TRUE(size == 1 || size == 3);
    if (look > 10) {
      ASSERT_EQ(size, 3);
    }
  }
}

TEST(PoolSize, WhoeverSaysNothingChangesNothing) {
  SizeMemory memory;
  for (int look = 0; look < 100; ++look) ASSERT_EQ(next_size(rule_of(2, 8), {}, 2, &memory), 2);
}

TEST(PoolSize, APoolThatWantsMoreWhenFewAndFewerWhenManyDoesNotPingPong) {
  // A cycle takes 22 looks at first, and 652 at last: 5,000 looks would hold 450 changes if the wait did not double.
  int size = 0;
  EXPECT_LE(changes(
                rule_of(1, 8), 5000, [](int n) { return n == 1 ? 2 : 1; }, &size),
            26);
}

TEST(PoolSize, RandomObjectsKeepTheSizeInItsRangeAndChangeItSeldom) {
  std::mt19937 random(7);
  for (int round = 0; round < 100000; ++round) {
    SizeRule rule = rule_of(1 + static_cast<int>(random() % 4), 0);
    rule.max = rule.min + static_cast<int>(random() % 6);
    std::vector<int> answer(16);  // what the object wants at each size
    for (int& wish : answer) wish = static_cast<int>(random() % 14) - 2;
    constexpr int kLooks = 200;
    const int changed = changes(
        rule, kLooks, [&](int n) { return answer[static_cast<size_t>(n)]; }, nullptr);
    // With a wait that doubles, 200 looks hold four cycles at most, and a cycle has no more steps than there are sizes.
    ASSERT_LE(changed, 4 * (rule.max - rule.min + 1)) << "round " << round;
  }
}
