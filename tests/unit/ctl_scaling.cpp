// SPDX-License-Identifier: Apache-2.0
// What dlctl says of how a job scales.
#include <gtest/gtest.h>

#include "launcher/ctl/scaling_view.h"

namespace dl::ctl {
namespace {

scaling::Measured measured(const scaling::Size& size, double step_s) {
  scaling::Measured one;
  one.size = size;
  one.step_s = step_s;
  one.steps = 40;
  return one;
}

// A sample takes 10 ms, communication on a node 50 ms at most twice.
record::ScalingRecord example() {
  record::ScalingRecord record;
  record.name = "<train>";
  record.framework = "pytorch";
  record.asked = {1, 8};
  record.batch = "16:128:4";
  record.now = {4, 1, 64, 1};
  record.measured = {measured({1, 1, 16, 1}, 0.16), measured({2, 1, 32, 1}, 0.21), measured({4, 1, 64, 1}, 0.235)};
  return record;
}

TEST(CtlScaling, ShowsWhatWasRunTheChosenSizeAndTheRangeThatWasAskedFor) {
  const auto view = view_scaling(example());
  ASSERT_TRUE(view) << view.error().text;
  ASSERT_EQ(view->rows.size(), 4U);
  EXPECT_EQ(view->rows[0].size.learners, 1);
  EXPECT_EQ(view->rows[3].size.learners, 8);
  EXPECT_TRUE(view->rows[2].now);
  EXPECT_EQ(view->probe, 8);
  const std::string text = scaling_text(*view, "12");
  EXPECT_NE(
      text.find(
          "job 12 <train>: 4 learners: 272 samples/s, 2.7 times 1 learner (measured); 8 would give 1.9 times that "
          "(guessed)"),
      std::string::npos)
      << text << "the second node was never measured";
  EXPECT_NE(text.find(">  4 "), std::string::npos) << text;
  EXPECT_NE(text.find("a run with 8 learners would improve this forecast most"), std::string::npos) << text;
}

// Of a batch of 64 a sample is worth (16 + 16) / (16 + 64) of one of the smallest batch.
TEST(CtlScaling, WhereTheNoiseIsKnownGoodputCounts) {
  record::ScalingRecord record = example();
  record.noise = 16;
  const auto view = view_scaling(record);
  ASSERT_TRUE(view);
  EXPECT_DOUBLE_EQ(view->rows[0].efficiency, 1);
  EXPECT_DOUBLE_EQ(view->rows[2].efficiency, 0.4);
  EXPECT_NEAR(view->rows[2].speed_up, 2.72 * 0.4, 0.01);
  EXPECT_NE(scaling_text(*view, "12").find("gradient noise scale is 16 samples"), std::string::npos);
  EXPECT_EQ(scaling_json(*view, "12").at("noise").get<int>(), 16);
}

TEST(CtlScaling, TheJsonHasEachPointAndTheFormula) {
  const auto view = view_scaling(example());
  ASSERT_TRUE(view);
  const Json json = scaling_json(*view, "12");
  EXPECT_EQ(json.at("unit").text(), "samples/s");
  ASSERT_EQ(json.at("points").size(), 4U);
  EXPECT_TRUE(json.at("points")[2].at("now").get<bool>());
  EXPECT_EQ(json.at("points")[2].at("confidence").text(), "measured");
  EXPECT_NEAR(json.at("formula").at("per_sample_s").get<double>(), 0.01, 2e-4);
  EXPECT_NEAR(json.at("formula").at("on_node_s").get<double>(), 0.05, 2e-3);
}

TEST(CtlScaling, ThePictureIsSelfContainedAndEscaped) {
  const auto view = view_scaling(example());
  ASSERT_TRUE(view);
  const std::string svg = scaling_svg(*view, "12");
  EXPECT_EQ(svg.rfind("<svg ", 0), 0U);
  EXPECT_NE(svg.find("&lt;train&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("<train>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(svg.find("samples/s by learners"), std::string::npos);
}

TEST(CtlScaling, WithoutMeasurementsItSaysWhatIsMissing) {
  record::ScalingRecord record = example();
  record.measured.clear();
  const auto view = view_scaling(record);
  ASSERT_FALSE(view);
  EXPECT_NE(view.error().text.find("no train steps were measured yet"), std::string::npos);
}

// One that somebody has edited.
TEST(CtlScaling, AnyRecordThatIsReadIsShown) {
  record::ScalingRecord record = example();
  record.now = {-3, 7, 0, 0};
  record.batch = "nonsense";
  ASSERT_TRUE(view_scaling(record));
  EXPECT_FALSE(scaling_text(*view_scaling(record), "1").empty());
  EXPECT_EQ(scaling_svg(*view_scaling(record), "1").find("nan"), std::string::npos);
  record.asked = {1, 100000};
  record.batch.clear();
  record.now = {100000, 1, 100000, 1};
  ASSERT_TRUE(view_scaling(record));
  EXPECT_LE(view_scaling(record)->rows.size(), 30U);
}

TEST(CtlScaling, WithoutABatchStepsOfLearnersAreCounted) {
  record::ScalingRecord record = example();
  record.batch.clear();
  record.now = {2, 1, 2, 1};
  record.measured = {measured({2, 1, 2, 1}, 0.1)};
  const auto view = view_scaling(record);
  ASSERT_TRUE(view);
  EXPECT_NE(scaling_sentence(*view).find("2 learners: 20 train steps/s, summed over learners"), std::string::npos)
      << scaling_sentence(*view);
  EXPECT_EQ(view->probe, 4);
}

}  // namespace
}  // namespace dl::ctl
