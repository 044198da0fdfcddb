// SPDX-License-Identifier: Apache-2.0
// What --data and --results make of a plan.
#include "launcher/plan/plan_data.h"

#include <gtest/gtest.h>

#include "launcher/plan/print.h"

namespace dl::plan {
namespace {

using dl::data::Cache;

PlanInput data_input(std::vector<dl::data::Source> sources) {
  PlanInput in;
  in.allocation.job_id = "12";
  in.allocation.job_name = "train";
  in.command = {"python3", "train.py"};
  in.work_dir = "/home/ada";
  in.home = "/home/ada";
  in.user = "ada";
  in.uid = 1000;
  in.sources = std::move(sources);
  in.data_program = "/libexec/dl-data";
  return in;
}

LaunchPlan planned(const PlanInput& in) {
  LaunchPlan plan;
  plan.job_id = in.allocation.job_id;
  plan.work_dir = in.work_dir;
  plan.job_dir = "/home/ada/dl-12";
  const Status made = plan_data(in, &plan);
  EXPECT_TRUE(made) << (made ? "" : made.error().text);
  return plan;
}

TEST(PlanData, without_the_options_a_plan_says_nothing_of_data) {
  const LaunchPlan plan = planned(data_input({}));
  EXPECT_FALSE(plan.data);
  EXPECT_FALSE(plan.results);
  EXPECT_EQ(plan.data_program, "");
}

TEST(PlanData, learners_find_a_folder_of_the_users_cache_on_their_node) {
  PlanInput in = data_input({{"lab:bucket/train", "train"}, {"/data/test", "test", Cache::kNone}});
  LaunchPlan plan = planned(in);
  ASSERT_TRUE(plan.data);
  EXPECT_EQ(plan.data->cache, "/tmp/slurm-dl-data-1000");
  EXPECT_EQ(plan.data->folder, "/tmp/slurm-dl-data-1000/1000/jobs/12");
  EXPECT_EQ(plan.data->dir, plan.data->folder);
  EXPECT_EQ(plan.data_program, "/libexec/dl-data");
  in.site.data.cache = "/local/cache";
  in.site.data.limit = 100;
  in.run_number = 2;
  plan = planned(in);
  EXPECT_EQ(plan.data->folder, "/local/cache/1000/jobs/12.2");
  EXPECT_EQ(plan.data->limit, 100U);
  in.site.data.shared = "/scratch/cache";
  in.prefetched = true;
  plan = planned(in);
  EXPECT_EQ(plan.data->folder, "/scratch/cache/1000/jobs/12.2");
  EXPECT_EQ(plan.data->limit, 0U);
}

// The nodes of a job have one folder in the shared cache, and each would put the link to its own part there.
TEST(PlanData, parts_of_a_shard_lie_in_the_nodes_own_caches) {
  PlanInput in = data_input({{"lab:bucket/a", "a"}, {"lab:bucket/train", "train", Cache::kShard}});
  in.site.data.cache = "/local/cache";
  in.site.data.limit = 100;
  in.site.data.shared = "/scratch/cache";
  in.prefetched = true;
  const LaunchPlan plan = planned(in);
  EXPECT_EQ(plan.data->cache, "/local/cache");
  EXPECT_EQ(plan.data->folder, "/local/cache/1000/jobs/12");
  EXPECT_EQ(plan.data->limit, 100U);
}

TEST(PlanData, a_single_path_that_is_read_where_it_lies_is_the_directory_itself) {
  PlanInput in = data_input({{"/data/digits", "", Cache::kNone}});
  EXPECT_EQ(planned(in).data->dir, "/data/digits");
  in.environment["DATA_DIR"] = "/mine";
  const LaunchPlan plan = planned(in);
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_EQ(plan.warnings[0], "DATA_DIR=/mine is set in your environment and stays; unset it to have that of --data");
}

TEST(PlanData, containers_see_the_cache_and_what_is_read_where_it_lies) {
  PlanInput in = data_input({{"lab:bucket/train", "train"}, {"/data/test", "test", Cache::kNone}});
  LaunchPlan plan;
  plan.job_id = "12";
  plan.container.image = "/images/a";
  ASSERT_TRUE(plan_data(in, &plan));
  EXPECT_EQ(plan.container.binds, (std::vector<std::string>{"/tmp/slurm-dl-data-1000/1000", "/data/test"}));
}

TEST(PlanData, results_of_two_jobs_never_mix) {
  const struct {
    const char* asked;
    const char* to;
  } rows[] = {{"out", "/home/ada/out/12"},     {"/out/", "/out/12"}, {"~/out/%x-%j", "/home/ada/out/train-12"},
              {"lab:bucket", "lab:bucket/12"}, {"lab:", "lab:12"},   {"lab:%u/%j", "lab:ada/12"}};
  for (const auto& row : rows) {
    PlanInput in = data_input({});
    in.request.results = dl::data::ResultsFlag{row.asked};
    const LaunchPlan plan = planned(in);
    ASSERT_TRUE(plan.results);
    EXPECT_EQ(plan.results->to, row.to) << row.asked;
  }
}

TEST(PlanData, results_with_a_checkpoint_need_one) {
  PlanInput in = data_input({});
  in.request.results = dl::data::ResultsFlag{"/out", true};
  LaunchPlan plan;
  plan.job_id = "12";
  const Status refused = plan_data(in, &plan);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kConflict);
  plan.checkpoint.emplace();
  EXPECT_TRUE(plan_data(in, &plan));
}

}  // namespace
}  // namespace dl::plan
