// SPDX-License-Identifier: Apache-2.0
// Charts as SVG: a file of its own, bounded, and with every text escaped.
#include <gtest/gtest.h>

#include <cmath>

#include "launcher/plot/colours.h"
#include "launcher/plot/svg_plot.h"
#include "tests/unit/plot_support.h"

namespace dl::plot {
namespace {

TEST(SvgPlotTest, TheFileNeedsNothingElseAndSuitsBothBackgrounds) {
  const std::string svg = svg_of({chart({{3, 2, 1}}), chart({{1}})}, "Metrics");
  EXPECT_EQ(svg.compare(0, 5, "<svg "), 0);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(svg.find("<circle "), std::string::npos);  // the single point
  for (const char* word : {"<script", "href", "url(", "@import", "nan", "inf"})
    EXPECT_EQ(svg.find(word), std::string::npos) << word;
}

TEST(SvgPlotTest, APictureForALightBackgroundHasNoRulesForADarkOne) {
  const Drawing drawing = drawing_of({chart({{3, 2, 1}})}, "Metrics", svg::Ground::kLight);
  EXPECT_EQ(drawing.svg.find("@media"), std::string::npos);
  EXPECT_NE(drawing.svg.find(kColours[0].light), std::string::npos);
  EXPECT_EQ(drawing.svg.find(kColours[0].dark), std::string::npos);
  // It is as large as the file says.
  EXPECT_NE(drawing.svg.find("width=\"" + std::to_string(std::lround(drawing.width)) + "\" height=\"" +
                             std::to_string(std::lround(drawing.height)) + "\""),
            std::string::npos);
}

TEST(SvgPlotTest, TextsOfOthersAreEscapedWhereverTheyStand) {
  const std::string hostile = "</title></text><script>alert(\"1\")</script>&amp;";
  Chart bad = chart({{1, 2, 3}});
  bad.title = bad.axis = hostile;
  bad.curves[0].name = bad.curves[0].note = hostile;
  bad.marks = {{1, hostile, hostile}};
  bad.notes = {hostile};
  const std::string svg = svg_of({bad}, hostile);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_EQ(svg.find("alert(\""), std::string::npos);
  size_t escaped = 0;
  for (size_t at = 0; (at = svg.find("&lt;script&gt;alert(&quot;1&quot;)", at)) != std::string::npos; ++at) ++escaped;
  EXPECT_EQ(escaped, 10U);
}

TEST(SvgPlotTest, AMillionPointsMakeASmallFile) {
  std::vector<double> values(1'000'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1 : -1;
  values[777'777] = 5;
  const std::string svg = svg_of({chart({values})}, "Metrics");
  EXPECT_LT(svg.size(), 100'000U);
  Chart many;
  for (int i = 0; i < 100; ++i) many.curves.push_back({"c", "", samples({1, 2})});
  for (int i = 0; i < 5000; ++i) many.marks.push_back({0.5, "attempt", "attempt"});
  const std::string marked = svg_of({many}, "Metrics");
  EXPECT_LT(marked.size(), 100'000U);
  EXPECT_NE(marked.find("76 further curves not drawn"), std::string::npos);
}

}  // namespace
}  // namespace dl::plot
