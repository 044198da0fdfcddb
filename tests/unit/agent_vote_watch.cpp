// SPDX-License-Identifier: Apache-2.0
// Of a learner's votes dlrun is told the newest, once, and at most one a second.
#include "launcher/agent/vote_watch.h"

#include <gtest/gtest.h>

#include <string>

#include "launcher/protocol/progress_file.h"

namespace dl::agent {
namespace {

TEST(VoteWatchTest, AVoteIsToldOnce) {
  VoteWatch watch;
  EXPECT_FALSE(watch.look("", 0)) << "there is no page";
  EXPECT_FALSE(watch.look(std::string(kVoteBytes, '\0'), 0));
  const auto told = watch.look(vote_bytes({2, "loader stalls 40 %"}, 7), 10);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->change, 2);
  EXPECT_EQ(told->reason, "loader stalls 40 %");
  EXPECT_FALSE(watch.look(vote_bytes({2, "loader stalls 40 %"}, 7), 5000));
  EXPECT_TRUE(watch.look(vote_bytes({2, "loader stalls 40 %"}, 8), 5000))
      << "the same, cast anew, so that it lasts longer";
}

TEST(VoteWatchTest, OfVotesByTheThousandOneASecondIsToldAndTheLastOneIs) {
  VoteWatch watch;
  int told = 0, last = 0;
  uint64_t number = 0;
  for (int64_t ms = 0; ms < 10'000; ++ms)
    for (int i = 0; i < 10; ++i)
      if (const auto vote = watch.look(vote_bytes({static_cast<int>(++number % 1000), ""}, number), ms)) {
        ++told;
        last = vote->change;
      }
  EXPECT_EQ(told, 10);
  const std::string newest = vote_bytes({-5, ""}, ++number);
  for (int64_t ms = 10'000; ms < 12'000; ++ms)
    if (const auto vote = watch.look(newest, ms)) last = vote->change;
  EXPECT_EQ(last, -5);
}

TEST(VoteWatchTest, AVoteThatIsBeingWrittenIsLookedAtAgain) {
  VoteWatch watch;
  std::string bytes = vote_bytes({2, "a"}, 7);
  ASSERT_TRUE(watch.look(bytes, 0));
  const std::string next = vote_bytes({3, "b"}, 8);
  EXPECT_FALSE(watch.look(next.substr(0, 100) + std::string(kVoteBytes - 100, 'x'), 1000));
  EXPECT_TRUE(watch.look(next, 1001));
}

TEST(VoteWatchTest, ANewPageHasNoVote) {
  protocol::ProgressFile page;
  VoteWatch watch;
  EXPECT_EQ(page.vote(), "");
  ASSERT_TRUE(page.create(0));
  EXPECT_EQ(page.vote().size(), kVoteBytes);
  EXPECT_FALSE(watch.look(page.vote(), 0));
}

}  // namespace
}  // namespace dl::agent
