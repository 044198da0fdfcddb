// SPDX-License-Identifier: Apache-2.0
// A vote as it stands in the file of the progress page: read back as it was written, and nothing else is read.
#include "common/contract/vote.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "common/contract/vote_hint.h"

namespace dl {
namespace {

std::string put_back(std::string bytes) {
  const uint32_t sum = check_sum(std::string_view(bytes).substr(4));
  std::memcpy(bytes.data(), &sum, sizeof sum);
  return bytes;
}

TEST(VoteTest, IsReadAsItWasWritten) {
  for (const Vote& vote : {Vote{2, "loader stalls 40 %"}, Vote{-kMostVote, ""}, Vote{kMostVote, std::string(200, 'x')},
                           Vote{0, "zu wenig Speicher f\u00fcr Schl\u00fcssel \U0001f600 \\x1b"}}) {
    const std::string bytes = vote_bytes(vote, 7);
    ASSERT_EQ(bytes.size(), kVoteBytes);
    const auto read = read_vote(bytes);
    ASSERT_TRUE(read) << vote.reason;
    EXPECT_EQ(read->vote.change, vote.change);
    EXPECT_EQ(read->vote.reason, vote.reason);
    EXPECT_EQ(read->number, 7U);
  }
}

TEST(VoteTest, WhatIsNotAllowedIsRefused) {
  EXPECT_TRUE(check_vote(-kMostVote, ""));
  EXPECT_FALSE(check_vote(int64_t{kMostVote} + 1, ""));
  EXPECT_FALSE(check_vote(INT64_MIN, ""));
  EXPECT_EQ(check_vote(100001, "").error().text, "change: 100001 is out of range; allowed: -100000 to 100000");
  EXPECT_FALSE(check_vote(1, std::string(201, 'x')));
  for (const char* bad : {"\x1b[31m", "a\nb", "\t", "\x7f", "\xc2\x9b", "\xff", "\xc3", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xc0\x80", "\xe0\x80\x80"})
    EXPECT_FALSE(check_vote(1, bad)) << bad;
  EXPECT_FALSE(check_vote(1, std::string_view("a\0b", 3)));
  EXPECT_EQ(check_vote(1, "\x1b").error().text,
            "reason: '\\x1b' is no short text; allowed: at most 200 bytes of UTF-8 without control characters");
}

TEST(VoteTest, APlaceWithoutAWholeVoteIsNoVote) {
  EXPECT_FALSE(read_vote(""));
  EXPECT_FALSE(read_vote(std::string(kVoteBytes, '\0'))) << "as a new page is";
  const std::string bytes = vote_bytes({2, "loader stalls 40 %"}, 7), other = vote_bytes({3, "queue is empty"}, 8);
  EXPECT_FALSE(read_vote(bytes.substr(1)));
  for (size_t cut = 1; cut + 1 < kVoteBytes; ++cut) {
    const std::string torn = other.substr(0, cut) + bytes.substr(cut);
    EXPECT_TRUE(torn == other || !read_vote(torn)) << cut;
  }
}

// A program may write there what it likes, with a sum that is right.
TEST(VoteTest, APlaceThatAHostileProgramWroteIsNoVote) {
  const std::string good = vote_bytes({2, "x"}, 7);
  ASSERT_TRUE(read_vote(put_back(good)));
  std::string bad = good;
  const uint32_t sizes[] = {201, UINT32_MAX};
  for (const uint32_t size : sizes) {
    std::memcpy(bad.data() + 4, &size, sizeof size);
    EXPECT_FALSE(read_vote(put_back(bad)));
  }
  const int64_t changes[] = {int64_t{kMostVote} + 1, INT64_MIN, INT64_MAX, int64_t{1} << 32};
  for (const int64_t change : changes) {
    bad = good;
    std::memcpy(bad.data() + 16, &change, sizeof change);
    EXPECT_FALSE(read_vote(put_back(bad)));
  }
  bad = good;
  bad[24] = '\x1b';
  EXPECT_FALSE(read_vote(put_back(bad)));
  bad = good;
  std::memset(bad.data() + 8, 0, 8);
  EXPECT_FALSE(read_vote(put_back(bad)));
}

TEST(VoteHintTest, IsFoundInOurPartOfACommentAlone) {
  EXPECT_EQ(vote_hint_in("vote=9 | dl:PROCESSING attempt=2 vote=3 dir=/x vote=7"), 3);
  EXPECT_FALSE(vote_hint_in("vote=9 | dl:PROCESSING attempt=2 dir=/x vote=7"));
  for (const char* text : {"", "0", "-1", "+2", "2x", "100001", "99999999999999999999", "1e3", " 2"})
    EXPECT_FALSE(parse_vote_hint(text)) << text;
  EXPECT_EQ(parse_vote_hint("100000"), kMaxLearners);
}

}  // namespace
}  // namespace dl
