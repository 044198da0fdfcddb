// SPDX-License-Identifier: Apache-2.0
// What `dlctl status` and `top` say of a job's speed, of what remains, and of its end.
#include <gtest/gtest.h>

#include <climits>

#include "launcher/ctl/job_pace.h"
#include "launcher/ctl/top_row.h"

namespace dl::ctl {
namespace {

constexpr int64_t kT = 1'790'000'000'000;

JobView trains() {
  JobView view;
  view.job.id = "12";
  view.job.slurm = slurm_cli::JobInfo();
  view.job.slurm->job_id = "12";
  view.job.slurm->state = "RUNNING";
  view.shown.state = record::JobState::kProcessing;
  view.attempt = 1;
  view.step = 380;
  view.saved_step = 300;
  return view;
}

metrics::Pace fast() {
  metrics::Pace pace;
  pace.steps_per_s = 2;
  pace.samples_per_s = 64.4;
  pace.rate_ms = kT - 1000;
  pace.step = 400;
  pace.total = 1000;
  return pace;
}

TEST(CtlPaceTest, ATrainingJobHasARateAndAnEnd) {
  const JobPace pace = pace_of_job(trains(), fast(), kT);
  EXPECT_EQ(pace.step, 400);
  EXPECT_EQ(pace.left_ms, 300'000);
  EXPECT_EQ(pace.end_ms, kT + 300'000);
  EXPECT_EQ(rate_words(pace), "2 train steps a second, 64 samples a second");
  EXPECT_EQ(left_words(pace), "600 of 1000 train steps, 5m00s");
  EXPECT_EQ(end_words(pace, kT).rfind("about ", 0), 0U);
  EXPECT_EQ(end_words(pace, kT).find("limit"), std::string::npos);
}

TEST(CtlPaceTest, ATimeLimitThatEndsBeforeIsNamed) {
  JobView view = trains();
  view.job.slurm->end_time = kT / 1000 + 60;
  EXPECT_NE(end_words(pace_of_job(view, fast(), kT), kT).find(", but its time limit ends at "), std::string::npos);
}

TEST(CtlPaceTest, WhatStandsStillHasNeither) {
  const JobPace pace = pace_of_job(trains(), fast(), kT + 600'000);
  EXPECT_EQ(rate_words(pace), "");
  EXPECT_EQ(left_words(pace), "600 of 1000 train steps");
  EXPECT_EQ(end_words(pace, kT), "");
  const JobPace unknown = pace_of_job(trains(), {}, kT);
  EXPECT_EQ(rate_words(unknown) + left_words(unknown) + end_words(unknown, kT), "");
  Json json;
  add_pace(unknown, &json);
  EXPECT_EQ(
      json.dump(),
      "{\"steps_per_s\":null,\"samples_per_s\":null,\"total_steps\":null,\"left_ms\":null,\"expected_end_ms\":null,"
      "\"next_save_ms\":null}");
}

TEST(CtlPaceTest, APausedJobSaysHowMuchTrainingIsLeft) {
  JobView view = trains();
  view.shown.state = record::JobState::kHalted;
  view.job.slurm->state = "PENDING";
  view.job.slurm->held = true;
  const JobPace pace = pace_of_job(view, fast(), kT + 86'400'000);
  EXPECT_EQ(pace.step, 380);  // what is saved counts, and not what was done after it
  EXPECT_EQ(left_words(pace), "620 of 1000 train steps, 5m10s");
  EXPECT_EQ(end_words(pace, kT), "");
  const top::Row row = top_row(view, pace);
  EXPECT_TRUE(row.may_resume);
  EXPECT_FALSE(row.may_pause);
  EXPECT_FALSE(row.active);
  view.shown.state = record::JobState::kCompleted;
  EXPECT_FALSE(pace_of_job(view, fast(), kT).left_ms);
}

TEST(CtlPaceTest, ARowSaysOnlyWhatIsKnown) {
  JobView view = trains();
  view.plan.learners = 2;
  view.plan.gpus_per_learner = 4;
  top::Row row = top_row(view, pace_of_job(view, {}, kT));
  EXPECT_EQ(row.id, "12");
  EXPECT_EQ(row.target, "12");
  EXPECT_EQ(row.gpus, 8);
  EXPECT_TRUE(row.may_pause);
  EXPECT_FALSE(row.gpu_use || row.cpus_used || row.steps_per_s || row.left_ms || row.next_save_ms || row.loss);
  view.plan.checkpoint = "/ckpt,every=10m";
  view.history.push_back({});
  view.history.back().attempt = 1;
  view.history.back().state = record::JobState::kProcessing;
  view.history.back().time_ms = kT - 60'000;
  row = top_row(view, pace_of_job(view, fast(), kT));
  EXPECT_EQ(row.next_save_ms, kT + 540'000);
  EXPECT_EQ(row.step, 400);
  view.job.id = view.job.slurm->job_id = "12_[3-7]";
  EXPECT_EQ(top_row(view, {}).target, "12");
  view.job.run = 2;
  view.job.id = "13";
  EXPECT_EQ(top_row(view, {}).id, "13.2");
  EXPECT_EQ(top_row(view, {}).target, "13");
}

TEST(CtlPaceTest, ARowOfAHostilePlanHasNumbersThatCanBeCountedWith) {
  JobView view = trains();
  view.plan.learners = view.plan.gpus_per_learner = INT_MAX;
  EXPECT_EQ(top_row(view, {}).gpus, 1'000'000'000);
  view.plan.gpus_per_learner = INT_MIN;
  EXPECT_EQ(top_row(view, {}).gpus, 0);
}

// It travels as JSON, to the process that draws and back.
TEST(CtlPaceTest, TheIdOfARowIsTextWhateverItsDirectoryIsCalled) {
  Job job;
  job.local = true;
  job.dir = record::JobDir("/jobs/a\xff");
  const std::string id = row_id(job);
  EXPECT_EQ(Json::parse(Json(id).dump()).text(), id);
  EXPECT_EQ(id, "/jobs/a\\xff");
}

}  // namespace
}  // namespace dl::ctl
