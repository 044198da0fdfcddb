// SPDX-License-Identifier: Apache-2.0
// Ranges and ticks of axes, for doubles of any kind.
#include "launcher/plot/scale.h"

#include <gtest/gtest.h>

#include "tests/unit/plot_support.h"

namespace dl::plot {
namespace {

TEST(ScaleTest, ARangeHasAllFiniteValuesAndNeverAnEmptyWidth) {
  const auto range = [](const std::vector<double>& values) { return ranges_of(chart({values})).y; };
  EXPECT_EQ(range({1, kNan, 3, kInfinity, -kInfinity}).low, 1);
  EXPECT_EQ(range({1, kNan, 3, kInfinity, -kInfinity}).high, 3);
  for (const std::vector<double>& flat : std::vector<std::vector<double>>{
           {5}, {5, 5}, {-5, -5}, {0}, {1e300}, {-1e308, -1e308}, {5e-324}, {1e-300, 2e-300}, {1, 1 + 1e-15}}) {
    const Range its = range(flat);
    EXPECT_LT(its.low, its.high) << flat[0];
    EXPECT_TRUE(std::isfinite(its.high - its.low)) << flat[0];
    const double part = its.part(flat[0]);
    EXPECT_TRUE(part >= 0 && part <= 1) << flat[0];
  }
  EXPECT_FALSE(ranges_of(chart({{kNan, kInfinity}})).any);
  EXPECT_FALSE(ranges_of(chart({})).any);
}

TEST(ScaleTest, TicksAreRoundAndFewWhateverTheRange) {
  for (const Range& range : {Range{0, 1}, Range{-1e300, 1e300}, Range{0.31, 0.33}, Range{-1e-200, 1e-200},
                             Range{1e15, 1e15 + 1e7}, Range{-3, 1e12}}) {
    const double step = tick_step(range, 5);
    const std::vector<double> all = ticks(range, step);
    ASSERT_GE(all.size(), 2U) << range.low;
    EXPECT_LE(all.size(), 7U) << range.low;
    const Range wide = rounded(range, step);
    EXPECT_LE(wide.low, range.low + step * 1e-5);
    EXPECT_GE(wide.high, range.high - step * 1e-5);
    for (size_t i = 1; i < all.size(); ++i) EXPECT_NE(tick_text(all[i - 1], step), tick_text(all[i], step));
  }
}

TEST(ScaleTest, NumbersOfTicksHaveAsManyDigitsAsTheyNeed) {
  EXPECT_EQ(tick_text(0, 0.5), "0");
  EXPECT_EQ(tick_text(0.5, 0.5), "0.5");
  EXPECT_EQ(tick_text(1, 0.5), "1.0");
  EXPECT_EQ(tick_text(-0.02, 0.01), "-0.02");
  EXPECT_EQ(tick_text(1200, 200), "1200");
  EXPECT_EQ(tick_text(1.5e9, 5e8), "1.5e9");
  EXPECT_EQ(tick_text(2e9, 5e8), "2.0e9");
  EXPECT_EQ(tick_text(1e9, 1e9), "1e9");
  EXPECT_EQ(tick_text(2e-9, 1e-9), "2e-9");
  EXPECT_EQ(tick_text(-1e300, 5e299), "-1.0e300");
  EXPECT_EQ(tick_text(1e-18, 0.1), "0");
}

}  // namespace
}  // namespace dl::plot
