// SPDX-License-Identifier: Apache-2.0
// Metrics of jobs as charts: which curves stand together, and over what.
#include "launcher/ctl/metrics_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dl::ctl {
namespace {

using metrics::CurvePoint;
using metrics::kNoStep;

constexpr int64_t kBegin = 1'789'000'000'000;

// A curve of one attempt: (step, value), one a second.
JobCurve curve(const std::string& group, const std::string& name, const std::vector<std::pair<int64_t, double>>& points,
               int attempt = 1, int rank = 0) {
  JobCurve made{rank, group, name, {}};
  int64_t time = kBegin;
  for (const auto& [step, value] : points) made.points.push_back({{time += 1000, step, value}, attempt, false});
  return made;
}

JobMetrics job(const std::string& name, std::vector<JobCurve> curves) {
  JobMetrics made;
  made.job = name;
  made.curves = std::move(curves);
  made.attempts = {{1, kBegin, 0}};
  return made;
}

TEST(MetricsPlotTest, CurvesOfOneNameStandInOneChartAndLossesAreFirst) {
  const auto charts = metrics_charts(
      {job("7", {curve("train", "acc", {{1, 0.5}}), curve("train", "loss", {{1, 3}, {2, 1}, {3, 2}}),
                 curve("validate", "loss", {{3, 4}}), curve("launcher", "train_steps_per_s", {{3, 9}})})},
      false);
  ASSERT_EQ(charts.size(), 3U);
  EXPECT_EQ(charts[0].title, "loss");
  EXPECT_EQ(charts[0].axis, "train step");
  ASSERT_EQ(charts[0].curves.size(), 2U);
  EXPECT_EQ(charts[0].curves[0].name, "train");
  EXPECT_EQ(charts[0].curves[0].note, "last 2 at 3, lowest 1 at 2, highest 3 at 1");
  EXPECT_EQ(charts[0].curves[1].name, "validate");
  EXPECT_EQ(charts[0].curves[1].note, "last 4 at 3");
  EXPECT_EQ(charts[1].title, "acc");
  EXPECT_EQ(charts[2].title, "train_steps_per_s (measured by dlrun)");
}

TEST(MetricsPlotTest, JobsAndRanksAreNamedWhereTheyDiffer) {
  const auto charts =
      metrics_charts({job("7", {curve("train", "loss", {{1, 3}}), curve("train", "loss", {{1, 3}}, 1, 2)}),
                      job("8", {curve("train", "loss", {{1, 4}})})},
                     false);
  ASSERT_EQ(charts.size(), 1U);
  ASSERT_EQ(charts[0].curves.size(), 3U);
  EXPECT_EQ(charts[0].curves[0].name, "job 7, rank 0");
  EXPECT_EQ(charts[0].curves[1].name, "job 7, rank 2");
  EXPECT_EQ(charts[0].curves[2].name, "job 8, rank 0");
}

TEST(MetricsPlotTest, AttemptsAreMarkedWithHowTheEarlierOneEnded) {
  JobMetrics two = job("7", {curve("train", "loss", {{0, 3}, {10, 2}})});
  for (const CurvePoint& point : curve("train", "loss", {{10, 1.5}, {20, 1}}, 2).points)
    two.curves[0].points.push_back(point);
  two.curves[0].points[1].superseded = true;
  two.attempts.push_back({2, kBegin + 60'000, 10, "preempted\033[31m"});
  auto charts = metrics_charts({two}, false);
  ASSERT_EQ(charts[0].marks.size(), 1U);
  EXPECT_EQ(charts[0].marks[0].x, 10);
  EXPECT_EQ(charts[0].marks[0].name, "attempt 2");
  EXPECT_EQ(charts[0].marks[0].text, "attempt 2 began with train step 10, after: preempted\\x1b[31m");
  EXPECT_EQ(charts[0].curves[0].samples.size(), 3U);
  ASSERT_EQ(charts[0].notes.size(), 1U);
  EXPECT_EQ(charts[0].notes[0], "1 point that later attempts have superseded; dlctl metrics --all shows them, too");
  // The step with which it began is not known: its first value tells it. What is superseded is drawn, too.
  two.attempts[1].step.reset();
  two.curves[0].points[1].point.step = 15;
  charts = metrics_charts({two}, true);
  EXPECT_EQ(charts[0].marks[0].x, 10);
  ASSERT_EQ(charts[0].curves[0].samples.size(), 5U);
  EXPECT_TRUE(std::isnan(charts[0].curves[0].samples[2].y));
}

TEST(MetricsPlotTest, WithoutTrainStepsTheAxisIsTime) {
  JobMetrics late = job("8", {curve("train", "q", {{kNoStep, 1}, {kNoStep, 2}})});
  for (CurvePoint& point : late.curves[0].points) point.point.time_ms += 86'400'000;
  late.curves[0].points[1].point.time_ms += 600'000;
  late.attempts.push_back({2, kBegin + 86'400'000 + 300'000 + 1000, {}, ""});
  const auto charts = metrics_charts({job("7", {curve("train", "q", {{1, 1}, {2, 2}})}), late}, false);
  ASSERT_EQ(charts.size(), 1U);
  EXPECT_EQ(charts[0].axis, "minutes since the first value");
  EXPECT_EQ(charts[0].curves[1].samples[0].x, 0);
  EXPECT_NEAR(charts[0].curves[1].samples[1].x, 10 + 1.0 / 60, 1e-9);
  ASSERT_EQ(charts[0].marks.size(), 1U);
  EXPECT_NEAR(charts[0].marks[0].x, 5, 1e-9);
  EXPECT_EQ(charts[0].marks[0].text, "job 8, attempt 2");
  // A few points without a step do not change the axis.
  const auto steps = metrics_charts({job("7", {curve("train", "q", {{1, 1}, {kNoStep, 5}, {2, 2}})})}, false);
  EXPECT_EQ(steps[0].axis, "train step");
  EXPECT_EQ(steps[0].curves[0].samples.size(), 2U);
  EXPECT_EQ(steps[0].notes[0], "1 point without a train step not drawn");
}

TEST(MetricsPlotTest, HostileNamesAndValuesAreShownAndHarmNobody) {
  const std::string hostile = "a\033]0;x\007<b>\"&\n\xff";
  JobMetrics bad = job(
      hostile, {curve(hostile, hostile,
                      {{1, std::numeric_limits<double>::quiet_NaN()}, {2, std::numeric_limits<double>::infinity()}}),
                curve(hostile, "loss", {{std::numeric_limits<int64_t>::max(), 1e308}, {-7, -1e308}})});
  bad.notes = {hostile};
  bad.curves[1].points[0].point.time_ms = std::numeric_limits<int64_t>::min();
  bad.curves[1].points[1].point.time_ms = std::numeric_limits<int64_t>::max();
  const std::string text = metrics_plot({bad}, false, {80, 8, plot::Marks::kLetters, false});
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 0x7f)) << static_cast<int>(c);
  EXPECT_NE(text.find("last inf at 2; 2 not finite"), std::string::npos) << text;
  const std::string svg = metrics_svg({bad, bad}, false);
  for (const char c : svg) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 0x7f)) << static_cast<int>(c);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
  EXPECT_NE(svg.find("&lt;b&gt;"), std::string::npos);
}

TEST(MetricsPlotTest, OfManyMetricsTheTextHasTheFirstAndSaysSo) {
  std::vector<JobCurve> many;
  for (int i = 0; i < 120; ++i) many.push_back(curve("train", "m" + std::to_string(i), {{1, 1}, {2, 2}}));
  const std::string text = metrics_plot({job("7", many)}, false, {80, 5, plot::Marks::kLetters, false});
  EXPECT_NE(text.find("114 further metrics not drawn; choose with --name and --group\n"), std::string::npos);
  EXPECT_NE(metrics_svg({job("7", many)}, false).find("20 further metrics not drawn"), std::string::npos);
  EXPECT_NE(metrics_drawing({job("7", many)}, false).svg.find("100 further metrics not drawn"), std::string::npos);
}

}  // namespace
}  // namespace dl::ctl
