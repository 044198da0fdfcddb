// SPDX-License-Identifier: Apache-2.0
// Running jobs grow where they are, onto whole free nodes, and give these back before any job shrinks or stops.
#include "slurm-plugin/policy/sizes/in_place.h"

#include <gtest/gtest.h>

#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

// A job that fills the nodes of `parts`, and may have up to `most` learners.
Job& filling(ClusterState* state, int tenant, std::vector<Part> parts, int most, int gpus = 1) {
  Job& job = add_running(state, tenant, std::move(parts), Charge::kOwn, gpus);
  job.min_learners = 1;
  job.max_learners = most;
  job.start_s = state->now_s - 100'000;
  job.restart_s = 10;
  return job;
}

std::vector<Growth> growths_of(ClusterState* state, const std::vector<JobSpeeds>& speeds, SteadySizes* left = nullptr) {
  SteadySizes sizes = decide_steadily(state, speeds, each_300s());
  std::vector<Growth> growths = grow_in_place(*state, std::vector<MayGrow>(state->jobs.size(), MayGrow::kYes), &sizes);
  if (left != nullptr) *left = std::move(sizes);
  return growths;
}

// A node of two GPUs is the job's, two are free.
ClusterState with_free_nodes() {
  ClusterState state = cluster(3, 2);
  add_tenant(&state, "a", 2);
  add_tenant(&state, "b", 4);
  filling(&state, 0, {{0, 2}}, 6);
  return state;
}

TEST(PolicyInPlace, AJobGrowsOntoWholeFreeNodesAndIsNotResizedThroughTheQueue) {
  ClusterState state = with_free_nodes();
  ASSERT_TRUE(check(state));
  const std::vector<JobSpeeds> speeds = {anywhere(state, 0, linear)};
  ASSERT_EQ(decide_steadily(&state, speeds, each_300s()).resizes.size(), 1U);
  SteadySizes left;
  const std::vector<Growth> growths = growths_of(&state, speeds, &left);
  ASSERT_EQ(growths.size(), 1U);
  EXPECT_EQ(growths[0].nodes, 2);
  EXPECT_EQ(growths[0].learners, 4);
  EXPECT_EQ(growths[0].free, (std::vector<int>{1, 2}));
  EXPECT_TRUE(left.resizes.empty());
}

TEST(PolicyInPlace, NotOntoNodesThatAreInUseInPartNorWithPartOfANode) {
  ClusterState state = with_free_nodes();
  add_running(&state, 1, {{1, 1}}, Charge::kOwn);
  std::vector<Growth> growths = growths_of(&state, {anywhere(state, 0, linear)});
  ASSERT_EQ(growths.size(), 1U);
  EXPECT_EQ(growths[0].free, std::vector<int>{2});
  state.jobs[0].parts = {{0, 1}};
  EXPECT_TRUE(growths_of(&state, {anywhere(state, 0, linear)}).empty()) << "one learner does not fill a node";
  state.jobs[0].parts = {{0, 2}};
  state.jobs[0].max_learners = 3;
  EXPECT_TRUE(growths_of(&state, {anywhere(state, 0, linear)}).empty()) << "a node has two";
}

TEST(PolicyInPlace, NotWhereItMayNotBorrowThem) {
  ClusterState state = with_free_nodes();
  state.tenants[0].quota.by_type = {6};
  state.tenants[1].quota.by_type = {0};
  state.tenants[0].borrow_limit = 2;
  for (const int nodes : {1, 2}) {
    state.tenants[0].borrow_limit = 2 * nodes;
    const std::vector<Growth> growths = growths_of(&state, {anywhere(state, 0, linear)});
    ASSERT_EQ(growths.size(), 1U);
    EXPECT_EQ(growths[0].nodes, nodes);
    EXPECT_EQ(growths[0].learners, 2 * nodes);
  }
  SteadySizes left;
  state.tenants[0].borrow_limit = 0;
  EXPECT_TRUE(growths_of(&state, {anywhere(state, 0, linear)}, &left).empty());
  EXPECT_EQ(left.resizes.size(), 1U) << "within its quota it grows through the queue";
}

TEST(PolicyInPlace, NotWhileAnybodyOfItsTenantWaitsNorShortlyBeforeItsEnd) {
  ClusterState state = with_free_nodes();
  const std::vector<JobSpeeds> speeds = {anywhere(state, 0, linear)};
  state.jobs[0].limit_s = 100'000 + kTimesCost * 10 - 1;
  EXPECT_TRUE(growths_of(&state, speeds).empty());
  state.jobs[0].limit_s += 1;
  EXPECT_EQ(growths_of(&state, speeds).size(), 1U);
  add_job(&state, 0, 100);  // it waits for more than its tenant may ever have
  EXPECT_TRUE(growths_of(&state, speeds).empty());
}

TEST(PolicyInPlace, OnlyJobsThatCanTakeACompanionAreOfferedNodes) {
  ClusterState state = with_free_nodes();
  SteadySizes sizes = decide_steadily(&state, {anywhere(state, 0, linear)}, each_300s());
  EXPECT_TRUE(grow_in_place(state, {MayGrow::kNo}, &sizes).empty());
  EXPECT_EQ(sizes.resizes.size(), 1U);
}

TEST(PolicyInPlace, ACompanionGoesBeforeAnyJobShrinksOrStops) {
  ClusterState state = cluster(3, 2);
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 6);
  Job& elastic = filling(&state, 0, {{0, 2}}, 4);
  elastic.charge = Charge::kBorrowed;
  Job& fresh = add_running(&state, 0, {{1, 2}}, Charge::kBorrowed);
  fresh.start_s = fresh.checkpoint_s = state.now_s;
  fresh.restart_s = 0;
  Job& companion = add_running(&state, 0, {{2, 2}}, Charge::kBorrowed);
  companion.tier = Tier::kBorrow;
  companion.companion = true;
  companion.start_s = state.now_s - 50'000;
  add_job(&state, 1, 2);
  ASSERT_TRUE(check(state));
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].job, 2);
}

TEST(PolicyInPlace, WhatIsRememberedOfOffers) {
  GrowthMemory memory;
  memory.look(1, 0, 0, 1000);
  EXPECT_EQ(memory.rests_until_s(1, 300), 0);
  memory.look(1, 1000, 0, 1005);
  EXPECT_EQ(memory.rests_until_s(1, 300), 1300);
  EXPECT_FALSE(memory.refused(1, 1005));
  EXPECT_TRUE(memory.refused(1, 1000 + GrowthMemory::kAnswerS));
  EXPECT_FALSE(memory.refused(1, 1000 + GrowthMemory::kRefusedS));
  memory.look(1, 1000, 1, 1050);
  EXPECT_FALSE(memory.refused(1, 1000 + GrowthMemory::kAnswerS));
  memory.look(1, 1000, 1, 5000);
  EXPECT_EQ(memory.rests_until_s(1, 300), 1350) << "with a companion it rests no longer than without";
  memory.look(1, 5000, 1, 5005);
  EXPECT_TRUE(memory.refused(1, 5000 + GrowthMemory::kAnswerS))
      << "the companion that it has is no answer to a new offer";
  memory.look(1, 5000, 2, 5030);
  EXPECT_FALSE(memory.refused(1, 5000 + GrowthMemory::kAnswerS));
  memory.look(1, 5000, 1, 6000);
  EXPECT_EQ(memory.rests_until_s(1, 300), 6300) << "it rests after it has lost its companion, too";
  memory.tidy();
  memory.tidy();
  EXPECT_EQ(memory.rests_until_s(1, 300), 0);
}

}  // namespace
}  // namespace dl::policy::testing
