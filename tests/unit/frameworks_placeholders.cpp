// SPDX-License-Identifier: Apache-2.0
#include "frameworks/placeholders.h"

#include <gtest/gtest.h>

#include "frameworks/learner_environment.h"

namespace dl {
namespace {

LearnerContext second_of_three() {
  LearnerContext c;
  c.rank = 1, c.world_size = 3, c.local_rank = 1, c.local_world_size = 2, c.num_nodes = 2;
  c.master_addr = "10.0.0.1", c.gpus_per_learner = 2, c.job_id = "12", c.attempt = 2;
  c.peers = {"10.0.0.1:41", "10.0.0.1:42", "10.0.0.2:43"}, c.ports = {42, 52};
  return c;
}

TEST(Placeholders, StandForWhereALearnerIs) {
  const LearnerContext c = second_of_three();
  EXPECT_EQ(fill_placeholders("%{rank}/%{world_size} %{local_rank}/%{local_world_size}", c), "1/3 1/2");
  EXPECT_EQ(fill_placeholders("%{peer} of %{peers} at %{port}", c),
            "10.0.0.1:42 of 10.0.0.1:41,10.0.0.1:42,10.0.0.2:43 at 42");
  EXPECT_EQ(fill_placeholders("tcp://%{address}", c), "tcp://10.0.0.1");
  EXPECT_EQ(fill_placeholders("%{local_gpus}", c), "2,3");
  EXPECT_EQ(fill_placeholders("{\"a\": 1} 50%", c), "{\"a\": 1} 50%");
}

TEST(Placeholders, WithoutAValueTheWholeTextIsEmpty) {
  LearnerContext c = second_of_three();
  c.peers.clear(), c.ports.clear(), c.gpus_per_learner = 0, c.cpus_per_learner = 0;
  for (const char* text : {"a %{peers}", "%{peer}:1", "x%{port}", "%{local_gpus}", "-t %{cpus}", "%{checkpoint_dir}/x"})
    EXPECT_EQ(fill_placeholders(text, c), "") << text;
}

TEST(Placeholders, UnknownOnesAreRefused) {
  EXPECT_TRUE(check_placeholders("no {rank} %d %{rank}%{peers}"));
  EXPECT_EQ(
      check_placeholders("a %{rnk}").error().text.rfind("'%{rnk}' is not a placeholder; allowed: %{address}, ", 0), 0U);
  EXPECT_EQ(check_placeholders("%{}").error().text.rfind("'%{ }' is not a placeholder", 0), 0U);
  EXPECT_EQ(check_placeholders("a %{rank").error().text, "'%{rank' is not closed: write '}' behind the name");
  EXPECT_FALSE(check_placeholders("%{%{rank}}"));
  EXPECT_FALSE(check_placeholders("%{"));
}

Environment composed(const Environment& version, const LearnerContext& context, Environment inherited) {
  LearnerRecipe recipe;
  recipe.version = &version;
  EXPECT_TRUE(compose(recipe, context, &inherited));
  return inherited;
}

TEST(Placeholders, WhatTellsALearnerWhoItIsReplacesWhatIsInherited) {
  const Environment version{{"ID", "%{rank}"}, {"SIZE", "%{world_size}"}, {"AT", "%{peer}"}, {"PLAIN", "x"}};
  LearnerContext c = second_of_three();
  Environment found = composed(version, c, {{"ID", "9"}, {"SIZE", "9"}, {"AT", "old:1"}, {"PLAIN", "mine"}});
  EXPECT_EQ(found["ID"], "1");
  EXPECT_EQ(found["SIZE"], "9");
  EXPECT_EQ(found["AT"], "10.0.0.1:42");
  EXPECT_EQ(found["PLAIN"], "mine");
  // An address of another run must not survive where ours is not known.
  c.peers.clear();
  EXPECT_EQ(composed(version, c, {{"AT", "old:1"}}).count("AT"), 0U);
}

TEST(Placeholders, OfAJobAtOnceAsOfEachLearner) {
  const Environment version{
      {"ID", "%{rank}"}, {"SIZE", "%{world_size}"}, {"RANK", "r%{rank}"}, {"OMP_NUM_THREADS", "%{world_size}"}};
  const std::vector<std::string> families{"torch"};
  LearnerRecipe recipe;
  recipe.version = &version, recipe.families = &families;
  for (const Environment& inherited :
       {Environment{}, Environment{{"ID", "9"}, {"SIZE", "8"}, {"OMP_NUM_THREADS", "7"}}}) {
    LearnerContext first = second_of_three();
    first.rank = 0, first.local_rank = 0;
    JobEnvironment job(first, inherited);
    ASSERT_TRUE(compose(recipe, &job));
    const LearnerContext other = second_of_three();
    Environment alone = inherited;
    ASSERT_TRUE(compose(recipe, other, &alone));
    Environment together = job.first();
    for (size_t name = 0; name < job.names().size(); ++name) {
      together.erase(job.names()[name]);
      if (const auto value = job.value_of(name, other)) together[job.names()[name]] = *value;
    }
    EXPECT_EQ(together, alone);
  }
}

}  // namespace
}  // namespace dl
