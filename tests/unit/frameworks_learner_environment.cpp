// SPDX-License-Identifier: Apache-2.0
// The order in which a learner's environment is composed, the same for dlrun --dry-run, dl-agent and srun's plugin.
#include "frameworks/learner_environment.h"

#include <gtest/gtest.h>

#include "common/contract/env_names.h"

namespace dl {
namespace {

Environment composed(const LearnerRecipe& recipe, Environment inherited) {
  LearnerContext context;
  context.world_size = context.local_world_size = 2;
  context.cpus_per_learner = 4;
  const Status done = compose(recipe, context, &inherited);
  EXPECT_TRUE(done) << done.error().text;
  return inherited;
}

TEST(LearnerEnvironment, TheVersionsVariablesWinOverItsFamiliesAndTheUsersOverBoth) {
  const std::vector<std::string> families = {"torch"};
  LearnerRecipe recipe;
  recipe.families = &families;
  EXPECT_EQ(composed(recipe, {}).at("OMP_NUM_THREADS"), "4");
  const Environment version = {{"OMP_NUM_THREADS", "7"}};
  recipe.version = &version;
  EXPECT_EQ(composed(recipe, {}).at("OMP_NUM_THREADS"), "7");
  EXPECT_EQ(composed(recipe, {{"OMP_NUM_THREADS", "2"}}).at("OMP_NUM_THREADS"), "2");
}

TEST(LearnerEnvironment, WhoTheLearnerIsReplacesWhatItInherits) {
  const std::vector<std::string> families = {"torch"};
  LearnerRecipe recipe;
  recipe.families = &families;
  const Environment found = composed(recipe, {{"DL_RANK", "9"}, {"RANK", "9"}, {"WORLD_SIZE", "9"}});
  EXPECT_EQ(found.at("DL_RANK"), "0");
  EXPECT_EQ(found.at("RANK"), "0");
  EXPECT_EQ(found.at("WORLD_SIZE"), "2");
}

TEST(LearnerEnvironment, ThePythonPackageIsAppendedOnceBehindWhatTheUserSet) {
  LearnerRecipe recipe;
  EXPECT_EQ(composed(recipe, {}).count("PYTHONPATH"), 0U);
  recipe.python_folder = "/opt/python";
  const Environment once = composed(recipe, {{"PYTHONPATH", "/mine:/other"}});
  EXPECT_EQ(once.at("PYTHONPATH"), "/mine:/other:/opt/python");
  EXPECT_EQ(composed(recipe, once).at("PYTHONPATH"), "/mine:/other:/opt/python");
  EXPECT_EQ(composed(recipe, {}).at("PYTHONPATH"), "/opt/python");
}

TEST(LearnerEnvironment, OutputThroughAPipeIsUnbufferedUnlessTheUserSaidOtherwise) {
  LearnerRecipe recipe;
  EXPECT_EQ(composed(recipe, {}).count("PYTHONUNBUFFERED"), 0U);
  recipe.piped = true;
  EXPECT_EQ(composed(recipe, {}).at("PYTHONUNBUFFERED"), "1");
  EXPECT_EQ(composed(recipe, {{"PYTHONUNBUFFERED", ""}}).at("PYTHONUNBUFFERED"), "");
}

TEST(LearnerEnvironment, WhatDlrunKnowsReplacesAndItsOwnVariablesAreGone) {
  LearnerRecipe recipe;
  const Environment known = {{env::kLease, "new"}, {env::kCheckpoint, "/ck"}};
  recipe.known = &known;
  const Environment found = composed(recipe, {{env::kLease, "old"}, {env::kSecret, "s"}, {env::kCheckpoint, "ck"}});
  EXPECT_EQ(found.at(env::kLease), "new");
  EXPECT_EQ(found.at(env::kCheckpoint), "/ck");
  EXPECT_EQ(found.count(env::kSecret), 0U);
}

TEST(LearnerEnvironment, AnUnknownFamilyIsAnErrorAndChangesNothing) {
  const std::vector<std::string> families = {"nonesuch"};
  LearnerRecipe recipe;
  recipe.families = &families;
  Environment environment = {{"A", "1"}, {env::kSecret, "s"}};
  const Environment before = environment;
  const Status done = compose(recipe, LearnerContext(), &environment);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kNotFound);
  EXPECT_EQ(environment, before);
}

}  // namespace
}  // namespace dl
