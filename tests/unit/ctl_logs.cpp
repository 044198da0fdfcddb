// SPDX-License-Identifier: Apache-2.0
// What people choose of the logs, and what lines say; hostile lines and expressions that would take for ever.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "launcher/ctl/log_choice.h"
#include "launcher/ctl/log_view.h"
#include "launcher/ctl/log_words.h"

namespace dl::ctl {
namespace {

TEST(LogRanks, AreOneOrSeveralOrRanges) {
  const auto ranks = Ranks::parse("0-3,8");
  ASSERT_TRUE(ranks);
  for (const int rank : {0, 3, 8}) EXPECT_TRUE(ranks->has(rank)) << rank;
  for (const int rank : {4, 7, 9}) EXPECT_FALSE(ranks->has(rank)) << rank;
  EXPECT_FALSE(ranks->single());
  EXPECT_EQ(Ranks::parse("5")->single(), 5);
  EXPECT_TRUE(Ranks().all());
  EXPECT_TRUE(Ranks().has(77));
  for (const char* bad : {"", "-1", "a", "1-", "3-1", "1,,2", "1 2", "9999999"}) EXPECT_FALSE(Ranks::parse(bad)) << bad;
  EXPECT_EQ(Ranks::parse("a").error().text,
            "'a' is not a list of ranks; allowed: ranks from 0 to 999999 and ranges, such as 3 or 0-3,8");
}

class LogMoment : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1), 0);
    ::tzset();
  }
  void TearDown() override {
    ::unsetenv("TZ");
    ::tzset();
  }
  static int64_t moment(const char* text, int64_t now_s) {
    const auto parsed = parse_moment(text, now_s * 1000);
    return parsed ? *parsed / 1000 : -1;
  }
};

TEST_F(LogMoment, IsATimeOrHowLongAgo) {
  constexpr int64_t kNow = 1764079509;  // 2025-11-25 15:05:09 here
  EXPECT_EQ(moment("10m", kNow), kNow - 600);
  EXPECT_EQ(moment("1h30m", kNow), kNow - 5400);
  EXPECT_EQ(moment("@1764000000", kNow), 1764000000);
  EXPECT_EQ(moment("15:05:09", kNow), kNow);
  EXPECT_EQ(moment("15:00", kNow), kNow - 309);
  EXPECT_EQ(moment("15:06", kNow), kNow - 86400 + 51) << "yesterday";
  EXPECT_EQ(moment("2025-11-25 15:05:09", kNow), kNow);
  EXPECT_EQ(moment("2025-11-25T15:05:09", kNow), kNow);
  EXPECT_EQ(moment("2025-11-25T14:05:09Z", kNow), kNow);
  EXPECT_EQ(moment("2025-11-25 15:05", kNow), kNow - 9);
  EXPECT_EQ(moment("2025-11-25", kNow), kNow - (15 * 3600 + 5 * 60 + 9));
  EXPECT_EQ(moment("2025-07-01 12:00:00", kNow), 1751364000) << "summer time";
  for (const char* bad : {"", "soon", "@", "@-1", "25:00", "2025-13-01", "2025-11-25 15:05:09 x", "-5m", "Z"})
    EXPECT_EQ(moment(bad, kNow), -1) << bad;
}

TEST(LogAttempts, AreThoseThatLastedIntoTheTime) {
  const std::vector<int> attempts = {1, 2, 3};
  const std::map<int, int64_t> begins = {{1, 1000}, {2, 2000}, {3, 3000}};
  using Numbers = std::vector<int>;
  EXPECT_EQ(attempts_between(attempts, begins, 2500, {}), (Numbers{2, 3}));
  EXPECT_EQ(attempts_between(attempts, begins, 9000, {}), Numbers{3});
  EXPECT_EQ(attempts_between(attempts, begins, {}, 2000), Numbers{1});
  EXPECT_EQ(attempts_between(attempts, begins, {}, 500), Numbers{});
  EXPECT_EQ(attempts_between(attempts, begins, 1500, 2500), (Numbers{1, 2}));
  EXPECT_EQ(attempts_between(attempts, {}, 1500, 2500), attempts) << "where nobody knows when they began";
}

TEST(LogExpression, MatchesAnyBytes) {
  auto loss = Expression::compile("loss: (?=\\d)");
  ASSERT_TRUE(loss);
  EXPECT_TRUE(loss->matches("epoch 1 loss: 0.3"));
  EXPECT_FALSE(loss->matches("epoch 1 loss: nan"));
  EXPECT_TRUE(loss->matches(std::string("\0\0loss: 1", 9)));
  EXPECT_TRUE(loss->matches("\xff\xfe loss: 1 \xc3"));
  EXPECT_FALSE(loss->matches(""));
  EXPECT_TRUE(Expression::compile("")->matches("anything"));
  EXPECT_TRUE(Expression::compile("^gr.n$")->matches("gr\xc3\xbcn"));
  EXPECT_EQ(
      Expression::compile("a(b").error().text,
      "'a(b' is not a regular expression: missing closing parenthesis, at character 3; allowed: the syntax of Perl");
}

TEST(LogExpression, OneThatWouldTakeForEverIsGivenUp) {
  auto bad = Expression::compile("^(a+)+$");
  ASSERT_TRUE(bad);
  EXPECT_FALSE(bad->matches(std::string(1 << 20, 'a') + "b"));
  EXPECT_FALSE(bad->matches(std::string(40, 'a') + "b"));
  EXPECT_EQ(bad->given_up(), 2);
  EXPECT_TRUE(bad->matches("aaa"));
}

TEST(LogWords, ErrorsAreKnownByTheirWords) {
  for (const char* line :
       {"RuntimeError: CUDA out of memory", "Traceback (most recent call last):", "2026-11-25 ERROR no",
        "[rank3]: torch.cuda.OutOfMemoryError: CUDA", "Segmentation fault (core dumped)", "x.c:3: error: no",
        "java.lang.Exception: x", "terminate called after throwing"})
    EXPECT_TRUE(says_error(line)) << line;
  for (const char* line : {"", "epoch 1 error 0.3", "no errors", "ERRORS: 0", "mean error: 0.2x"})
    EXPECT_EQ(says_error(line), std::string(line) == "mean error: 0.2x") << line;
  EXPECT_FALSE(says_error(std::string(1 << 20, 'x') + "ERROR"));
}

TEST(LogPrefix, NamesTheRanksInFewLetters) {
  EXPECT_EQ(ranks_prefix({3}), "[3] ");
  std::vector<int> all, even;
  for (int rank = 0; rank < 1024; ++rank) {
    all.push_back(rank);
    if (rank % 2 == 0) even.push_back(rank);
  }
  EXPECT_EQ(ranks_prefix(all), "[0-1023] ");
  EXPECT_EQ(ranks_prefix(even), "[0,2,4,6,8,10,12,14,… (512)] ");
}

}  // namespace
}  // namespace dl::ctl
