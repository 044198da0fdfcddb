// SPDX-License-Identifier: Apache-2.0
#include "common/scaling/pace_hint.h"

#include <gtest/gtest.h>

namespace dl {
namespace {

TEST(PaceHintTest, IsReadBackFromAWholeComment) {
  const std::string text = format_pace_hint({1200, 3.4178, 52.25, 1'789'000'000});
  EXPECT_EQ(text, "1200/3.418/52.2@1789000000");
  const PaceHint hint =
      pace_hint_in("my pace=1/1/1@1 | dl:PROCESSING attempt=2 step=1100 pace=" + text + " dir=/x pace=2/2/2@2");
  EXPECT_EQ(hint.step, 1200);
  EXPECT_DOUBLE_EQ(hint.steps_per_s, 3.418);
  EXPECT_DOUBLE_EQ(hint.blocked_s, 52.2);
  EXPECT_EQ(hint.at_s, 1'789'000'000);
}

TEST(PaceHintTest, TheSpeedMayBeUnknownAndTheLargestNumbersStayShort) {
  EXPECT_EQ(format_pace_hint({0, 0, 0, 5}), "0/0/0.0@5");
  EXPECT_EQ(parse_pace_hint("0/0/0.0@5").steps_per_s, 0);
  EXPECT_EQ(format_pace_hint({}), "");
  constexpr int64_t kMost = 999'999'999'999'999'999;  // of parse_int(): 18 digits
  const std::string longest = format_pace_hint({kMost, 1e300, 1e300, kMost});
  EXPECT_LT(longest.size(), 64U);
  EXPECT_EQ(parse_pace_hint(longest).step, kMost);
}

TEST(PaceHintTest, RubbishIsNoHint) {
  for (const char* text : {"",
                           "1",
                           "1/2",
                           "1/2/3",
                           "1/2@3",
                           "1/2/3@",
                           "1/2/3@0",
                           "1/2/3@-1",
                           "-1/2/3@4",
                           "x/2/3@4",
                           "1/-2/3@4",
                           "1/2/-3@4",
                           "1/nan/3@4",
                           "1/inf/3@4",
                           "1/2/nan@4",
                           "1/1e10/3@4",
                           "1/2/1e10@4",
                           "1@2/3/4",
                           "1/2/3@4@5",
                           "1/2/3/4@5",
                           "1//3@4",
                           "1/2/@4",
                           "1/2/3 @4",
                           "1/0x2/3@4",
                           "99999999999999999999/2/3@4",
                           "1/2/3@99999999999999999999"})
    EXPECT_EQ(parse_pace_hint(text).step, -1) << text;
  for (const char* comment : {"", "pace=1/2/3@4", "dl:PROCESSING", "dl:PROCESSING pace=", "dl:X dir=/ pace=1/2/3@4"})
    EXPECT_EQ(pace_hint_in(comment).step, -1) << comment;
}

}  // namespace
}  // namespace dl
