// SPDX-License-Identifier: Apache-2.0
// The ranks of the agents that one srun starts, as dlrun tells them.
#include "common/contract/rank_list.h"

#include <gtest/gtest.h>

namespace dl {
namespace {

TEST(RankList, EachRankIsFoundAtItsPlace) {
  for (const std::vector<int>& ranks : {std::vector<int>{0}, {2, 3, 4, 7}, {7, 2, 3}, {1, 3, 5}, {5, 4, 3}}) {
    const std::string text = format_rank_list(ranks);
    for (size_t place = 0; place < ranks.size(); ++place) {
      const auto rank = rank_at(text, static_cast<int64_t>(place));
      ASSERT_TRUE(rank) << text << ": " << rank.error().text;
      EXPECT_EQ(*rank, ranks[place]) << text;
    }
    EXPECT_FALSE(rank_at(text, static_cast<int64_t>(ranks.size()))) << text;
  }
  EXPECT_EQ(format_rank_list({2, 3, 4, 7}), "2-4,7");
}

TEST(RankList, AnotherTextIsRefused) {
  for (const char* text : {"", "a", "3-", "-3", "4-2", "1,,2", "0-99999999"}) EXPECT_FALSE(rank_at(text, 3)) << text;
}

}  // namespace
}  // namespace dl
