// SPDX-License-Identifier: Apache-2.0
// Charts on a page: as wide as it is, bounded, with every text escaped, and no extreme lost.
#include <gtest/gtest.h>

#include "launcher/plot/page_plot.h"
#include "tests/unit/plot_support.h"

namespace dl::plot {
namespace {

TEST(PagePlotTest, AChartIsStretchedOverThePage) {
  const std::string page = page_chart(chart({{3, 2, 1}, {1}}));
  EXPECT_EQ(page.compare(0, 8, "<figure "), 0);
  for (const char* part : {"preserveAspectRatio=\"none\"", "<figcaption>loss</figcaption>", "class=\"curve k0\"",
                           "M0,0L1000,500L2000,1000", "h0\" class=\"curve k1\"", ">train step</p>", "<b>curve 1</b>"})
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  EXPECT_NE(page_plot_styles().find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(PagePlotTest, AChartWithoutAFiniteSampleHasItsLegendAlone) {
  const std::string page = page_chart(chart({{kNan, kInfinity}}));
  EXPECT_NE(page.find("<b>curve 0</b>"), std::string::npos);
  EXPECT_EQ(page.find("class=\"plot\""), std::string::npos);
  for (const char* word : {"nan", "inf"}) EXPECT_EQ(page.find(word), std::string::npos) << word;
}

TEST(PagePlotTest, TextsOfOthersAreEscapedWhereverTheyStand) {
  const std::string hostile = "</svg><script>\"x\x1b";
  Chart bad = chart({{1, 2, 3}});
  bad.title = bad.axis = bad.curves[0].name = bad.curves[0].note = hostile;
  bad.marks = {{1, hostile, hostile}};
  bad.notes = {hostile};
  const std::string page = page_chart(bad) + page_label(0.5, hostile, false);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  size_t escaped = 0;
  for (size_t at = 0; (at = page.find("&lt;script&gt;&quot;x\\x1b", at)) != std::string::npos; ++at) ++escaped;
  EXPECT_EQ(escaped, 9U);
}

TEST(PagePlotTest, AMillionPointsLoseNoExtremeAndManyCurvesStayBounded) {
  std::vector<double> values(1'000'000, 0);
  values[777'777] = 5;
  values[222'222] = -5;
  const std::string page = page_chart(chart({values}));
  EXPECT_LT(page.size(), 30'000U);
  EXPECT_NE(page.find(",83L"), std::string::npos);   // the highest
  EXPECT_NE(page.find(",917L"), std::string::npos);  // the lowest
  const std::string quotes(1000, '"');
  Chart many{quotes, quotes, {}, {}, std::vector<std::string>(1000, quotes)};
  for (int i = 0; i < 100; ++i) {
    std::vector<double> odd(4000);
    for (size_t at = 0; at < odd.size(); ++at) odd[at] = at % 2 == 0 ? kNan : static_cast<double>(at % 7);
    many.curves.push_back({quotes, quotes, samples(odd)});
  }
  for (int i = 0; i < 5000; ++i) many.marks.push_back({0.01 * i, quotes, quotes});
  EXPECT_LT(page_chart(many).size(), kMostPageChartBytes);
  EXPECT_NE(page_chart(many).find("76 further curves not drawn"), std::string::npos);
}

}  // namespace
}  // namespace dl::plot
