// SPDX-License-Identifier: Apache-2.0
// The metrics of a job as runs of other programs: which points, at which steps, and under which names.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/json/json.h"
#include "launcher/ctl/export_runs.h"
#include "launcher/metrics/event_message.h"
#include "launcher/metrics/tf_record.h"

namespace dl::ctl {
namespace {

using metrics::CurvePoint;
using metrics::kNoStep;

constexpr int64_t kBegin = 1'789'000'000'000;

// A job that went on at train step 10: attempt 1 measured 0, 10 and 20, attempt 2 measured 10 and 20 again.
JobMetrics resumed(const std::string& group, const std::string& name, int rank = 0) {
  JobMetrics job;
  job.job = "4711";
  JobCurve curve{rank, group, name, {}};
  int64_t time = kBegin;
  for (const int64_t step : {0, 10, 20}) curve.points.push_back({{time += 1000, step, 3.0}, 1, step >= 10});
  for (const int64_t step : {10, 20}) curve.points.push_back({{time += 1000, step, 2.0}, 2, false});
  job.curves.push_back(curve);
  return job;
}

std::string points_of(const ExportSeries& series) {
  std::string text;
  for (const ExportPoint& point : series.points)
    text += (text.empty() ? "" : " ") + std::to_string(point.step) + "=" + std::to_string(std::lround(point.value)) +
            "/" + std::to_string(point.attempt);
  return text;
}

std::vector<std::string> tags_of(const std::vector<std::pair<std::string, std::string>>& names) {
  JobMetrics job;
  for (const auto& [group, name] : names) job.curves.push_back({0, group, name, {{{kBegin, 1, 1.0}, 1, false}}});
  std::vector<std::string> tags;
  const ExportedJob made = exported(job, false);
  for (const ExportSeries& series : made.runs.at(0).series) tags.push_back(series.tag);
  tags.pop_back();  // attempt
  return tags;
}

TEST(ExportTest, TheTrueCurveIsOneRunAndTellsWhereAttemptsBegan) {
  const ExportedJob made = exported(resumed("train", "loss"), false);
  ASSERT_EQ(made.runs.size(), 1U);
  EXPECT_EQ(made.runs[0].attempt, 0);
  ASSERT_EQ(made.runs[0].series.size(), 2U);
  EXPECT_EQ(made.runs[0].series[0].tag, "train/loss");
  EXPECT_EQ(points_of(made.runs[0].series[0]), "0=3/1 10=2/2 20=2/2");
  EXPECT_EQ(made.runs[0].series[1].tag, "attempt");
  EXPECT_EQ(points_of(made.runs[0].series[1]), "0=1/1 10=2/2");
  EXPECT_EQ(made.points, 3);
  EXPECT_EQ(made.superseded, 2);
}

TEST(ExportTest, WithAllEachAttemptIsARunWithEveryPointOfIt) {
  const ExportedJob made = exported(resumed("train", "loss", 3), true);
  ASSERT_EQ(made.runs.size(), 2U);
  EXPECT_EQ(made.runs[0].attempt, 1);
  EXPECT_EQ(made.runs[0].series[0].tag, "train/loss/rank-3");
  EXPECT_EQ(points_of(made.runs[0].series[0]), "0=3/1 10=3/1 20=3/1");
  EXPECT_EQ(made.runs[1].attempt, 2);
  EXPECT_EQ(points_of(made.runs[1].series[0]), "10=2/2 20=2/2");
  EXPECT_EQ(made.points, 5);
  EXPECT_EQ(made.superseded, 0);
}

TEST(ExportTest, WithoutTrainStepsTheStepIsSecondsSinceTheFirstValue) {
  JobMetrics job = resumed("train", "loss");
  job.curves.push_back(
      {0, "use", "cpus_used", {{{kBegin + 1500, kNoStep, 1}, 1, false}, {{kBegin + 9000, kNoStep, 2}, 2, false}}});
  job.curves.push_back(
      {0, "train", "acc", {{{kBegin, 1, 1}, 1, false}, {{kBegin, kNoStep, 2}, 1, false}, {{kBegin, 2, 3}, 1, false}}});
  const ExportedJob made = exported(job, false);
  ASSERT_EQ(made.runs[0].series.size(), 4U);
  EXPECT_FALSE(made.runs[0].series[1].by_step);
  EXPECT_EQ(points_of(made.runs[0].series[1]), "1=1/1 9=2/2");
  EXPECT_TRUE(made.runs[0].series[2].by_step);
  EXPECT_EQ(points_of(made.runs[0].series[2]), "1=1/1 2=3/1");
  EXPECT_EQ(made.without_step, 1);
}

TEST(ExportTest, NamesOfHostileProgramsBecomeTags) {
  EXPECT_EQ(tags_of({{"train", "../../etc/passwd"}}), std::vector<std::string>{"train/_/_/etc/passwd"});
  EXPECT_EQ(tags_of({{"..", "/."}}), std::vector<std::string>{"x_/_/_"});
  EXPECT_EQ(tags_of({{"", ""}}), std::vector<std::string>{"x_/_"});
  EXPECT_EQ(tags_of({{"_step", "_timestamp"}}), std::vector<std::string>{"x_step/_timestamp"});
  EXPECT_EQ(tags_of({{"train", "a\033]0;x\007\n<b>\\\xff%s"}}), std::vector<std::string>{"train/a__0_x___b____s"});
  EXPECT_EQ(tags_of({{"train", "Verlust größe"}}), std::vector<std::string>{"train/Verlust größe"});
  EXPECT_EQ(tags_of({{"train", "a?"}, {"train", "a!"}, {"train", "a_"}}),
            (std::vector<std::string>{"train/a_", "train/a__2", "train/a__3"}));
  EXPECT_LT(tags_of({{std::string(1000, 'g'), std::string(1000, '/')}}).at(0).size(), 500U);
}

TEST(ExportTest, TheNameOfAFolderIsNoPath) {
  EXPECT_EQ(run_file_name("4711"), "4711");
  EXPECT_EQ(run_file_name("12_3.2"), "12_3.2");
  EXPECT_EQ(run_file_name("local-2026.x"), "local-2026.x");
  EXPECT_EQ(run_file_name("../x y"), "job.._x_y");
  EXPECT_EQ(run_file_name(""), "job");
  EXPECT_EQ(run_file_name("-rf"), "job-rf");
  EXPECT_EQ(run_file_name(std::string(1000, 'a')).size(), 100U);
}

TEST(ExportTest, AnEventFileHasAllPointsInTheOrderOfTime) {
  JobMetrics job = resumed("train", "loss");
  job.curves.push_back({0, "validate", "loss", {{{kBegin + 2500, 10, std::nan("")}, 1, false}}});
  const std::string file = event_file(exported(job, false).runs.at(0));
  metrics::EventScalars event;
  std::string text;
  const metrics::RecordScan scan = metrics::scan_records(file, [&](std::string_view data) {
    ASSERT_TRUE(metrics::read_event(data, &event));
    for (const metrics::Scalar& one : event.scalars)
      text +=
          std::string(one.tag) + "@" + std::to_string(event.step) + "+" + std::to_string(event.time_ms - kBegin) + " ";
  });
  EXPECT_EQ(scan.used, file.size());
  EXPECT_EQ(text,
            "train/loss@0+1000 attempt@0+1000 validate/loss@10+2500 train/loss@10+4000 attempt@10+4000 "
            "train/loss@20+5000 ");
}

TEST(ExportTest, ExtremeTimesAndValuesArePassedOnAsJson) {
  JobMetrics job = resumed("train", "loss");
  job.curves[0].points[0].point = {std::numeric_limits<int64_t>::min(), 0, INFINITY};
  job.curves[0].points[3].point = {std::numeric_limits<int64_t>::max(), 10, std::nan("")};
  const Json read = Json::parse(export_json(job, "/jobs/dl-4711", "FAILED", exported(job, false)));
  EXPECT_EQ(read.at("state").get<std::string>(), "FAILED");
  const Json& series = read.at("runs")[0].at("series")[0];
  EXPECT_EQ(series.at("axis").get<std::string>(), "step");
  EXPECT_EQ(series.at("value").dump(), "[\"inf\",\"nan\",2.0]");
  EXPECT_EQ(series.at("time_ms")[1].get<int64_t>(), std::numeric_limits<int64_t>::max());
  for (CurvePoint& point : job.curves[0].points) point.point.step = kNoStep;
  EXPECT_EQ(exported(job, true).points, 5);
}

}  // namespace
}  // namespace dl::ctl
