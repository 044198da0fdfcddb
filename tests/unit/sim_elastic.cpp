// SPDX-License-Identifier: Apache-2.0
// The experiment of elastic policies: what must hold whatever the parameters are.
#include <gtest/gtest.h>

#include "slurm-plugin/sim/elastic/curves.h"
#include "slurm-plugin/sim/elastic/experiment.h"
#include "slurm-plugin/sim/elastic/sweep.h"

namespace dl::sim {
namespace {

Workload small(double load) {
  Workload workload;
  workload.gpus = 40;
  workload.hours = 4;
  workload.load = load;
  workload.categories = categories();
  return workload;
}

TEST(SimElastic, JobsThatCannotVaryGainExactlyNothing) {
  Workload workload = small(1.5);
  workload.categories = *parse_categories("fixed");
  for (const bool drop : {false, true}) {
    Rules rules;
    rules.drop = drop;
    const ElasticOutcome both = replay(workload, ElasticPolicy::kElastic, rules);
    const ElasticOutcome gpus = replay(workload, ElasticPolicy::kFixedBatch, rules);
    EXPECT_EQ(both.completed, gpus.completed);
    EXPECT_EQ(both.dropped, gpus.dropped);
    EXPECT_EQ(both.mean_jct_s, gpus.mean_jct_s);
    EXPECT_EQ(both.resizes, gpus.resizes);
  }
}

TEST(SimElastic, EveryJobEndsOrIsDroppedAndNoMoreGpusAreUsedThanThereAre) {
  for (const double load : {0.3, 1.0, 2.5}) {
    for (const ElasticPolicyRow& row : elastic_policies()) {
      Rules rules;
      rules.drop = load > 1;
      const ElasticOutcome outcome = replay(small(load), row.policy, rules);
      EXPECT_GT(outcome.jobs, 10) << row.name;
      EXPECT_LE(outcome.completed + outcome.dropped, outcome.jobs) << row.name;
      EXPECT_LE(outcome.utilisation, 1 + 1e-9) << row.name;
      EXPECT_GT(outcome.utilisation, 0) << row.name;
      EXPECT_GE(outcome.mean_wait_s, 0) << row.name;
      EXPECT_GE(outcome.mean_jct_s, outcome.mean_wait_s) << row.name;
      if (!rules.drop) {
        EXPECT_EQ(outcome.dropped, 0) << row.name;
      }
    }
  }
}

TEST(SimElastic, TheSameSeedGivesTheSameAndElasticJobsEndEarlier) {
  const Rules rules;
  const ElasticOutcome once = replay(small(1), ElasticPolicy::kElastic, rules);
  EXPECT_EQ(once.mean_jct_s, replay(small(1), ElasticPolicy::kElastic, rules).mean_jct_s);
  EXPECT_LT(once.mean_jct_s, replay(small(1), ElasticPolicy::kFifo, rules).mean_jct_s);
}

TEST(SimElastic, ToWorkForCompletionsEndsJobsEarlierAndMoreOfThem) {
  const Rules rules;
  for (const double load : {1.0, 2.0}) {
    const ElasticOutcome speed_up = replay(small(load), ElasticPolicy::kElastic, rules);
    const ElasticOutcome known = replay(small(load), ElasticPolicy::kKnown, rules);
    EXPECT_LT(replay(small(load), ElasticPolicy::kCompletion, rules).mean_jct_s, speed_up.mean_jct_s) << load;
    EXPECT_LT(known.mean_jct_s, speed_up.mean_jct_s) << load;
    EXPECT_GE(known.completed, speed_up.completed) << load;
  }
}

TEST(SimElastic, AResizeCostsItsTime) {
  Rules cheap;
  cheap.restart_s = 0;
  Rules dear;
  dear.restart_s = 600;
  const ElasticOutcome free = replay(small(1), ElasticPolicy::kElastic, cheap);
  const ElasticOutcome costly = replay(small(1), ElasticPolicy::kElastic, dear);
  EXPECT_LT(costly.resizes, free.resizes);
  EXPECT_GT(costly.mean_jct_s, free.mean_jct_s);
}

TEST(SimElastic, ALargerBatchIsNeverSlower) {
  for (const Category& category : categories()) {
    const auto one = speeds(category, 8, false);
    const auto any = speeds(category, 8, true);
    ASSERT_EQ(one.size(), any.size());
    for (size_t g = 1; g < one.size(); ++g) {
      EXPECT_GE(any[g].samples_s, one[g].samples_s) << category.name << " " << g;
      EXPECT_EQ(one[g].batch, category.batch);
      EXPECT_LE(any[g].batch, category.most_batch);
    }
  }
}

TEST(SimElastic, UnknownCategoriesAreRefusedByName) {
  EXPECT_NE(parse_categories("compute,none").error().text.find("'none' is not a category"), std::string::npos);
  EXPECT_FALSE(parse_categories(""));
  EXPECT_EQ(parse_categories("fixed,compute")->size(), 2U);
}

// Two jobs: one whose user's batch needs two GPUs, and which may run on one GPU with a smaller batch; one whose larger
// batch is three times as fast.
const char* const kCurves = R"({"jobs": [
  {"name": "large", "batch": 64, "speeds": [
    {"gpus": 1, "batch": 32, "samples_s": 10}, {"gpus": 2, "batch": 64, "samples_s": 19},
    {"gpus": 4, "batch": 64, "samples_s": 30}]},
  {"name": "small", "part": 2, "batch": 8, "asked": 4, "speeds": [
    {"gpus": 1, "batch": 8, "samples_s": 100}, {"gpus": 1, "batch": 64, "samples_s": 300}]}]})";

TEST(SimElastic, MeasuredSpeedsAreUsedAndNoOthers) {
  const auto found = read_curves(kCurves);
  ASSERT_TRUE(found) << found.error().text;
  ASSERT_EQ(found->size(), 2U);
  const auto fixed = speeds((*found)[0], 8, false);
  const auto any = speeds((*found)[0], 8, true);
  ASSERT_EQ(fixed.size(), 5U);
  EXPECT_EQ(fixed[1].samples_s, 0);
  EXPECT_EQ(fixed[2].samples_s, 19);
  EXPECT_EQ(fixed[3].samples_s, 0);
  EXPECT_EQ(any[1].samples_s, 10);
  EXPECT_EQ(any[1].batch, 32);
  EXPECT_EQ(speeds((*found)[1], 8, true)[1].batch, 64);
  Workload workload = small(2);
  workload.categories = *found;
  for (const ElasticJob& job : jobs_of(workload)) {
    if (job.category == 1) {
      EXPECT_EQ(job.asked, 1);
    } else {
      EXPECT_TRUE(job.asked == 2 || job.asked == 4) << job.asked;
    }
  }
  for (const bool drop : {false, true}) {
    Rules rules;
    rules.drop = drop;
    for (const ElasticPolicyRow& row : elastic_policies()) {
      const ElasticOutcome outcome = replay(workload, row.policy, rules);
      EXPECT_GT(outcome.completed, 0) << row.name;
      EXPECT_LE(outcome.utilisation, 1 + 1e-9) << row.name;
    }
    const int64_t base = replay(workload, ElasticPolicy::kFixedBatch, rules).completed;
    EXPECT_GT(replay(workload, ElasticPolicy::kElastic, rules).completed, base);
  }
}

TEST(SimElastic, CurvesThatAreWrongAreRefusedByPlace) {
  const auto said = [](const std::string& text) {
    const auto found = read_curves(text);
    return found ? std::string() : found.error().text;
  };
  const auto with = [](const std::string& job) { return R"({"jobs": [)" + job + "]}"; };
  EXPECT_NE(said("{").find("is not JSON"), std::string::npos);
  EXPECT_NE(said("{}").find("jobs: is missing"), std::string::npos);
  EXPECT_NE(said(R"({"jobs": []})").find("jobs: 0 are not accepted"), std::string::npos);
  EXPECT_NE(said(with("{}")).find("jobs[0].name: is missing"), std::string::npos);
  EXPECT_NE(said(with("7")).find("jobs[0]: is no object"), std::string::npos);
  EXPECT_NE(said(with(R"({"name": "a", "batch": 0, "speeds": []})")).find("jobs[0].batch: 0"), std::string::npos);
  EXPECT_NE(said(with(R"({"name": "a", "batch": 8, "speeds": []})")).find("none is at the user's batch, 8"),
            std::string::npos);
  for (const char* point :
       {R"({"gpus": 0, "batch": 8, "samples_s": 1})", R"({"gpus": 1, "batch": 8, "samples_s": 0})",
        R"({"gpus": 1, "batch": 8, "samples_s": -1})", R"({"gpus": 1, "batch": 8, "samples_s": 1e99})",
        R"({"gpus": 1, "batch": 8})", R"({"gpus": 1e9, "batch": 8, "samples_s": 1})",
        R"({"gpus": 1, "batch": 8, "samples_s": 1, "x": 1})", "[]"})
    EXPECT_NE(
        said(with(R"({"name": "a", "batch": 8, "speeds": [)" + std::string(point) + "]}")).find("jobs[0].speeds[0]"),
        std::string::npos)
        << point;
}

}  // namespace
}  // namespace dl::sim
