// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/request.h"

#include <gtest/gtest.h>

namespace dl::plan {
namespace {

TEST(PlanRequest, DefaultsComeFromTheSite) {
  SiteConfig site;
  site.framework = "mpi";
  site.restarts = 2;
  auto request = read_request({}, {}, site);
  ASSERT_TRUE(request) << request.error().text;
  EXPECT_EQ(request->framework.name, "mpi");
  EXPECT_EQ(request->restarts, 2);
  EXPECT_FALSE(request->learners);
  EXPECT_FALSE(request->gpus);
  EXPECT_FALSE(request->checkpoint);
  EXPECT_EQ(request->rank_placement, "block");
}

TEST(PlanRequest, EnvironmentIsReadAndOptionsWin) {
  const Environment environment{
      {"DL_FRAMEWORK", "pytorch:1.13"},         {"DL_LEARNERS", "2:8"}, {"DL_GPUS", "a100:2"},
      {"DL_CHECKPOINT", "ck,every=10m,keep=5"}, {"DL_RESTARTS", "3"},   {"DL_TIER", "borrow"}};
  RequestOptions options;
  auto request = read_request(environment, options, {});
  ASSERT_TRUE(request) << request.error().text;
  EXPECT_EQ(request->framework.version, "1.13");
  EXPECT_EQ(request->learners->max, 8);
  EXPECT_EQ(request->gpus->type, "a100");
  EXPECT_EQ(request->checkpoint->keep, 5);
  EXPECT_EQ(request->tier, Tier::kBorrow);
  options.learners = "4";
  options.gpus = "0";
  options.rank_placement = "cyclic";
  request = read_request(environment, options, {});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->learners->min, 4);
  EXPECT_EQ(request->learners->max, 4);
  EXPECT_EQ(request->gpus->count, 0);
  EXPECT_EQ(request->rank_placement, "cyclic");
  EXPECT_EQ(request->restarts, 3);
  EXPECT_FALSE(request->batch);
}

TEST(Request, has_the_batch_of_the_job_or_of_the_option) {
  RequestOptions options;
  auto request = read_request({{"DL_BATCH", "16:64"}}, options, {});
  ASSERT_TRUE(request) << request.error().text;
  EXPECT_EQ(request->batch->max, 64);
  options.batch = "8:16";
  request = read_request({{"DL_BATCH", "16:64"}}, options, {});
  ASSERT_TRUE(request) << request.error().text;
  EXPECT_EQ(request->batch->max, 16);
  options.batch = "16:8";
  request = read_request({}, options, {});
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().text.rfind("--batch: '16:8' has a MIN above its MAX", 0), 0U) << request.error().text;
}

TEST(PlanRequest, EmptyVariableCountsAsUnset) {
  auto request = read_request({{"DL_LEARNERS", ""}, {"DL_FRAMEWORK", ""}}, {}, {});
  ASSERT_TRUE(request) << request.error().text;
  EXPECT_FALSE(request->learners);
  EXPECT_EQ(request->framework.name, "generic");
}

TEST(PlanRequest, ErrorsNameTheirSource) {
  const char* const variables[] = {"DL_FRAMEWORK", "DL_LEARNERS", "DL_GPUS", "DL_CHECKPOINT", "DL_RESTARTS", "DL_TIER"};
  for (const char* name : variables) {
    auto request = read_request({{name, ",;x y"}}, {}, {});
    ASSERT_FALSE(request) << name;
    EXPECT_EQ(request.error().text.rfind(std::string(name) + ": '", 0), 0U) << request.error().text;
    EXPECT_EQ(request.error().code, Errc::kInvalid);
  }
  RequestOptions options;
  options.learners = "x";
  // The option is at fault although the variable is bad too: it is the one that counts.
  auto request = read_request({{"DL_LEARNERS", "y"}}, options, {});
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().text.rfind("--learners: 'x'", 0), 0U) << request.error().text;
}

}  // namespace
}  // namespace dl::plan
