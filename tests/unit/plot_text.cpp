// SPDX-License-Identifier: Apache-2.0
// Charts as text: what a terminal of any width and letters shows.
#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/plot/canvas.h"
#include "launcher/plot/text_plot.h"
#include "tests/unit/plot_support.h"

namespace dl::plot {
namespace {

TEST(TextPlotTest, AFallingCurveFallsFromTheLeftToTheRight) {
  EXPECT_EQ(text_of(chart({{4, 3, 2, 1, 0}}), letters(24)),
            "loss\n"
            "4 +***\n"
            "  |   *****\n"
            "2 +        *****\n"
            "  |             *****\n"
            "0 +                  ***\n"
            "  ++---------+---------+\n"
            "   0         2         4\n"
            " * curve 0\n");
}

TEST(TextPlotTest, AFlatCurveAndASinglePointAreDrawnInTheMiddle) {
  for (const std::vector<double>& values : {std::vector<double>{7, 7, 7}, std::vector<double>{7}}) {
    const auto all = lines(text_of(chart({values}), {40, 5, Marks::kBraille, false}));
    for (size_t i = 1; i <= 5; ++i)
      EXPECT_EQ(all[i].find("⠤") != std::string::npos || all[i].find("⠒") != std::string::npos ||
                    all[i].find("⠉") != std::string::npos || all[i].find("⠛") != std::string::npos ||
                    all[i].find("⣀") != std::string::npos || all[i].find("⠶") != std::string::npos ||
                    all[i].find("⣤") != std::string::npos,
                i == 3)
          << text_of(chart({values}), {40, 5, Marks::kBraille, false});
  }
}

TEST(TextPlotTest, NoLineIsWiderThanTheTerminal) {
  Chart wide = chart({{0.25, 1e9, kNan, -3e9}, {1, 2}});
  wide.title = std::string(500, 't');
  wide.axis = std::string(500, 'a');
  wide.notes = {std::string(500, 'n')};
  wide.marks = {{1, "attempt 2", std::string(500, 'm')}, {kNan, "attempt 3", "never"}};
  for (size_t i = 0; i < 20; ++i)
    wide.curves.push_back({std::string(500, 'c'), std::string(500, 'o'), samples({1, 2})});
  for (const int width : {-5, 0, 1, 24, 25, 40, 80, 200})
    for (const Marks marks : {Marks::kBraille, Marks::kBlocks, Marks::kLetters}) {
      const std::string text = text_of(wide, {width, 1, marks, false});
      for (const std::string& line : lines(text))
        EXPECT_LE(characters(line), static_cast<size_t>(std::max(kLeastWidth, width))) << line;
      const bool ascii =
          std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
      EXPECT_EQ(ascii, marks == Marks::kLetters);
    }
  EXPECT_NE(text_of(wide, letters(80)).find("14 further curves not drawn"), std::string::npos);
}

TEST(TextPlotTest, WithoutColoursCurvesAreToldApartByLetters) {
  const std::string plain = text_of(chart({{1, 2, 3}, {3, 2, 1}}), {60, 8, Marks::kBraille, false});
  EXPECT_NE(plain.find(" * curve 0\n"), std::string::npos) << plain;
  EXPECT_NE(plain.find(" + curve 1\n"), std::string::npos) << plain;
  EXPECT_EQ(plain.find('\033'), std::string::npos);
  const std::string coloured = text_of(chart({{1, 2, 3}, {3, 2, 1}}), {60, 8, Marks::kBraille, true});
  EXPECT_NE(coloured.find("\033[36m⠤⠤\033[0m curve 0\n"), std::string::npos) << coloured;
  EXPECT_NE(coloured.find("\033[33m⠤⠤\033[0m curve 1\n"), std::string::npos) << coloured;
  EXPECT_EQ(coloured.find('*'), std::string::npos);
  // Each line ends without a colour.
  for (const std::string& line : lines(coloured)) {
    const size_t last = line.rfind('\033');
    EXPECT_TRUE(last == std::string::npos || line.compare(last, 4, "\033[0m") == 0) << line;
  }
}

TEST(TextPlotTest, MarksStandInTheFieldAndAreExplainedBelow) {
  Chart marked = chart({{1, 1, 1, 1, 1}});
  marked.marks = {{2, "attempt 2", "attempt 2 began with train step 2"}};
  const auto all = lines(text_of(marked, letters(40)));
  const size_t place = all[1].find(':');
  ASSERT_NE(place, std::string::npos) << text_of(marked, letters(40));
  EXPECT_EQ(all[2].find(':'), place);
  EXPECT_EQ(all[6][place], '^');
  EXPECT_EQ(all.back(), " : attempt 2 began with train step 2");
  for (int i = 0; i < 100; ++i) marked.marks.push_back({3, "", "one"});
  EXPECT_NE(text_of(marked, letters(40)).find(" : and 93 more\n"), std::string::npos);
}

TEST(TextPlotTest, AChartWithoutFiniteValuesHasOnlyItsLegend) {
  EXPECT_EQ(text_of(chart({{kNan, kInfinity}}), letters(40)), "loss\n * curve 0\n");
  EXPECT_EQ(text_of(chart({}), letters(40)), "loss\n");
}

TEST(TextPlotTest, AnythingFiniteCanBeDrawn) {
  for (const std::vector<double>& values :
       std::vector<std::vector<double>>{{1e308, -1e308}, {5e-324, 0}, {1, 1 + 1e-15}, {1e-300, 1e300}, {-0.0, 0.0}}) {
    for (const Marks marks : {Marks::kBraille, Marks::kBlocks, Marks::kLetters}) {
      const std::string text = text_of(chart({values}), {80, 12, marks, true});
      EXPECT_EQ(lines(text).size(), 1U + 12 + 2 + 1) << text;
    }
    Chart turned = chart({{1, 2}});
    turned.curves[0].samples = {{values[0], 1}, {values[1], 2}};
    EXPECT_EQ(lines(text_of(turned, letters(80, 12))).size(), 1U + 12 + 2 + 1);
  }
}

TEST(TextPlotTest, AMillionSamplesKeepTheirOnlyPeak) {
  std::vector<double> values(1'000'000, 0.0);
  values[500'000] = 1;
  const auto all = lines(text_of(chart({values}), letters(80, 8)));
  EXPECT_NE(all[1].find('*'), std::string::npos);
  EXPECT_EQ(std::count(all[1].begin(), all[1].end(), '*'), 1);
}

TEST(CanvasTest, EachDotHasItsPlaceInACharacter) {
  Canvas braille(1, 1, Marks::kBraille);
  braille.line(0, 0, 0, 0, 0);
  braille.line(1, 3, 1, 3, 0);
  EXPECT_EQ(braille.cell(0, 0).text, "⢁");
  Canvas blocks(1, 1, Marks::kBlocks);
  blocks.line(0, 1, 1, 0, 3);
  EXPECT_EQ(blocks.cell(0, 0).text, "▞");
  EXPECT_EQ(blocks.cell(0, 0).curve, 3);
  Canvas spot(2, 1, Marks::kBraille);
  spot.spot(3, 3, 1);
  EXPECT_EQ(spot.cell(1, 0).text, "⣤");
  EXPECT_EQ(spot.cell(0, 0).curve, -1);
}

TEST(TextPlotTest, TextsAreCutBetweenCharacters) {
  EXPECT_EQ(fitted("größer", 6, false), "größer");
  EXPECT_EQ(fitted("größer", 4, false), "grö…");
  EXPECT_EQ(fitted("greater", 5, true), "gr...");
  EXPECT_EQ(fitted("greater", 0, true), "...");
}

}  // namespace
}  // namespace dl::plot
