// SPDX-License-Identifier: Apache-2.0
// Thinning: few samples, but no extreme is lost.
#include "launcher/plot/thin.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/plot_support.h"

namespace dl::plot {
namespace {

std::vector<std::vector<Sample>> thin(const std::vector<double>& values, int columns, size_t most = 100'000) {
  return thinned(samples(values), {0, std::max(1.0, static_cast<double>(values.size()) - 1)}, columns, most);
}

size_t count(const std::vector<std::vector<Sample>>& runs) {
  size_t all = 0;
  for (const auto& run : runs) all += run.size();
  return all;
}

TEST(ThinTest, FewSamplesStayAsTheyAre) {
  const auto runs = thin({3, 1, 2}, 100);
  ASSERT_EQ(runs.size(), 1U);
  ASSERT_EQ(runs[0].size(), 3U);
  EXPECT_EQ(runs[0][1].x, 1);
  EXPECT_EQ(runs[0][1].y, 1);
  EXPECT_TRUE(thin({}, 100).empty());
  EXPECT_TRUE(thin({kNan, kInfinity}, 100).empty());
}

TEST(ThinTest, OfAMillionSamplesTheOnlyPeakAndTheOnlyHoleStay) {
  std::vector<double> values(1'000'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5 + 0.1 * std::sin(static_cast<double>(i) / 1000);
  values[345'678] = 9;
  values[654'321] = -9;
  const auto runs = thin(values, 440, 2000);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_LE(count(runs), 2000U);
  EXPECT_GE(count(runs), 440U);
  const auto [low, high] =
      std::minmax_element(runs[0].begin(), runs[0].end(), [](const Sample& a, const Sample& b) { return a.y < b.y; });
  EXPECT_EQ(low->x, 654'321);
  EXPECT_EQ(low->y, -9);
  EXPECT_EQ(high->x, 345'678);
  EXPECT_EQ(high->y, 9);
  EXPECT_EQ(runs[0].front().x, 0);
  EXPECT_EQ(runs[0].back().x, 999'999);
}

TEST(ThinTest, AGapIsAGapUnlessNobodyCouldSeeIt) {
  EXPECT_EQ(thin({1, 2, kNan, kNan, 3, 4}, 100).size(), 2U);
  EXPECT_EQ(thin({1, kNan, 3, kNan, 5}, 100).size(), 3U);
  std::vector<double> values;
  for (int i = 0; i < 100'000; ++i) values.push_back(i % 2 == 0 ? 1.0 * i : kNan);
  const auto runs = thin(values, 100);
  EXPECT_EQ(runs.size(), 1U);
  EXPECT_LE(count(runs), 400U);
}

TEST(ThinTest, SamplesOutOfOrderAreSortedWithinARun) {
  const auto runs = thinned({{5, 1}, {3, 2}, {9, 3}, {1, kNan}, {2, 7}, {0, 8}}, {0, 10}, 1000, 1000);
  ASSERT_EQ(runs.size(), 2U);
  ASSERT_EQ(runs[0].size(), 3U);
  EXPECT_EQ(runs[0][0].x, 3);
  EXPECT_EQ(runs[0][2].x, 9);
  EXPECT_EQ(runs[1][0].x, 0);
}

TEST(ThinTest, ManyCurvesThatBeginAgainAreBoundedToo) {
  std::vector<Sample> again;
  for (int attempt = 0; attempt < 5000; ++attempt) {
    for (int step = 0; step < 20; ++step) again.push_back({static_cast<double>(step * 50), 1.0 * step + attempt});
    again.push_back({0, kNan});
  }
  again.push_back({500, 1e6});
  const auto runs = thinned(again, {0, 1000}, 440, 2000);
  EXPECT_LE(count(runs), 2000U);
  double most = 0;
  for (const auto& run : runs)
    for (const Sample& sample : run) most = std::max(most, sample.y);
  EXPECT_EQ(most, 1e6);
}

}  // namespace
}  // namespace dl::plot
