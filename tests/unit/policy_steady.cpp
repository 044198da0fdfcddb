// SPDX-License-Identifier: Apache-2.0
// Sizes that are carried out little by little: which jobs start smaller, which running ones are resized now.
#include "slurm-plugin/policy/sizes/steady.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

Job& elastic_running(ClusterState* state, std::vector<Part> parts, int most) {
  Job& job = add_running(state, 0, std::move(parts), Charge::kOwn);
  job.min_learners = 1;
  job.max_learners = most;
  job.start_s = state->now_s - 3600;
  return job;
}

SizeOptions steady() {
  SizeOptions options;
  options.each_s = kResizeEachS;
  return options;
}

TEST(PolicySteady, FirstOneShrinksThenTheOtherGrows) {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 8);
  elastic_running(&state, {{0, 4}}, 8);
  elastic_running(&state, {{0, 4}}, 8);
  const std::vector<JobSpeeds> speeds = {speeds_of(state, 0, linear), speeds_of(state, 1, flat)};
  SteadySizes sizes = decide_steadily(&state, speeds, steady());
  ASSERT_EQ(sizes.resizes.size(), 1U);
  EXPECT_EQ(sizes.resizes[0].job, 1);
  EXPECT_EQ(learners_of(sizes.resizes[0].parts), 1);
  state.jobs[1].parts = sizes.resizes[0].parts;
  state.jobs[1].start_s = state.now_s;
  sizes = decide_steadily(&state, speeds, steady());
  ASSERT_EQ(sizes.resizes.size(), 1U);
  EXPECT_EQ(sizes.resizes[0].job, 0);
  EXPECT_EQ(learners_of(sizes.resizes[0].parts), 7);
}

TEST(PolicySteady, AJobKeepsItsSizeForSomeMinutesAndForTwentyTimesWhatAResizeCosts) {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 8);
  elastic_running(&state, {{0, 2}}, 8);
  const std::vector<JobSpeeds> speeds = {speeds_of(state, 0, linear)};
  const auto resizes = [&](int64_t ran_s, int64_t costs_s) {
    state.jobs[0].start_s = state.now_s - ran_s;
    state.jobs[0].restart_s = costs_s;
    return !decide_steadily(&state, speeds, steady()).resizes.empty();
  };
  EXPECT_FALSE(resizes(299, 1));
  EXPECT_TRUE(resizes(300, 1));
  EXPECT_FALSE(resizes(1199, 60));
  EXPECT_TRUE(resizes(1200, 60));
}

TEST(PolicySteady, NobodyShrinksForOneWhoWouldGrowWhileAnotherTenantWaits) {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  elastic_running(&state, {{0, 4}}, 8);
  elastic_running(&state, {{0, 4}}, 8);
  add_job(&state, 1, 8);  // what a gives up could not go to a's other job
  const std::vector<JobSpeeds> speeds = {speeds_of(state, 0, linear), speeds_of(state, 1, flat)};
  EXPECT_TRUE(decide_steadily(&state, speeds, steady()).resizes.empty());
  // For a job of its own tenant that then starts, one within the quota shrinks.
  add_job(&state, 0, 3);
  const SteadySizes sizes = decide_steadily(&state, speeds, steady());
  ASSERT_EQ(sizes.resizes.size(), 2U);
  EXPECT_EQ(sizes.resizes[0].job, 1);
  EXPECT_TRUE(sizes.resizes[1].starts);
}

TEST(PolicySteady, AJobStartsSmallerSoThatAnotherStartsBesideIt) {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 8);
  Job& elastic = add_job(&state, 0, 8);
  elastic.min_learners = 1;
  add_job(&state, 0, 5);
  const std::vector<JobSpeeds> speeds = {speeds_of(state, 0, flat)};
  const SteadySizes sizes = decide_steadily(&state, speeds, steady());
  ASSERT_EQ(sizes.decision.starts.size(), 2U);
  EXPECT_EQ(state.jobs[0].max_learners, 8);  // the state is as before
}

// Random clusters, with new jobs and without, carried out as dlsim does.
TEST(PolicySteadyRandom, WorldsComeToRestAndResizesAreBoundedOverTime) {
  int resized = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Dice dice(seed);
    ClusterState state = random_state(&dice);
    for (Job& job : state.jobs) {
      if (dice.one_in(2)) job.max_learners += dice.from(1, 6);
      if (dice.one_in(2) && job.running) job.min_learners = 1;
    }
    if (!check(state)) continue;
    std::vector<JobSpeeds> speeds;
    for (size_t i = 0; i < state.jobs.size(); ++i) {
      const int shape = dice.from(0, 3);
      speeds.push_back(speeds_of(state, static_cast<int>(i), [&](int n) {
        return shape == 0 ? n : shape == 1 ? std::sqrt(n) : shape == 2 ? 1 + 0.02 * n : 10.0 / n;
      }));
    }
    std::vector<int64_t> last(state.jobs.size(), -kFarthestS);
    int64_t last_any_s = state.now_s;
    const int64_t begin_s = state.now_s;
    for (int round = 0; round < 150; ++round, state.now_s += 120) {
      const SteadySizes sizes = decide_steadily(&state, speeds, steady());
      carry_out(&state, sizes.decision, true);
      for (const Resize& resize : sizes.resizes) {
        Job& job = state.jobs[resize.job];
        if (resize.starts) continue;
        ASSERT_TRUE(job.running) << seed;
        ASSERT_GE(state.now_s - last[resize.job], kResizeEachS) << seed;
        ASSERT_GE(learners_of(resize.parts), job.min_learners) << seed;
        ASSERT_LE(learners_of(resize.parts), job.max_learners) << seed;
        last[resize.job] = last_any_s = state.now_s;
        job.parts = resize.parts;
        job.start_s = job.checkpoint_s = state.now_s;
        ++speeds[resize.job].restarts;
        ++resized;
      }
      state.first_running = 0;
      const Status sound = check(state);
      ASSERT_TRUE(sound) << seed << " round " << round << ": " << sound.error().text;
    }
    ASSERT_LE(last_any_s, begin_s + 120 * 120) << seed << ": does not come to rest";
  }
  EXPECT_GT(resized, 200);
}

}  // namespace
}  // namespace dl::policy::testing
