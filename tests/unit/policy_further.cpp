// SPDX-License-Identifier: Apache-2.0
// Growth after growth: a job that has companions is offered more nodes. (Random worlds: policy_in_place.cpp.)
#include "slurm-plugin/policy/sizes/further.h"

#include <gtest/gtest.h>

#include "common/contract/companion_hint.h"
#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

// Five nodes of two GPUs. Job 0 fills the first, and has one companion on the second; it may have `most` learners.
ClusterState with_companion(int most) {
  ClusterState state = cluster(5, 2);
  add_tenant(&state, "a", 2);
  add_tenant(&state, "b", 8);
  Job& job = add_running(&state, 0, {{0, 2}}, Charge::kOwn);
  job.min_learners = 1;
  job.max_learners = most;
  job.start_s = state.now_s - 100'000;
  job.restart_s = 10;
  Job& companion = add_running(&state, 0, {{1, 1}}, Charge::kBorrowed, 2);
  companion.tier = Tier::kBorrow;
  companion.companion = true;
  companion.saves = false;
  return state;
}

std::vector<Growth> further(const ClusterState& state, const std::vector<Grown>& grown,
                            const std::function<double(int)>& speed = linear, MayGrow may = MayGrow::kYes) {
  Joined joined = with_companions(state, grown);
  std::vector<JobSpeeds> speeds;
  if (!joined.grown.empty()) speeds.push_back(anywhere(joined.state, joined.index[joined.grown[0].job], speed));
  return grow_further(state, decide(state), std::vector<MayGrow>(state.jobs.size(), may), speeds, each_300s(), &joined);
}

TEST(PolicyFurther, AJobIsOneWithItsCompanionsForTheOptimiserAlone) {
  const ClusterState state = with_companion(8);
  const Joined joined = with_companions(state, {{0, {1}}});
  ASSERT_TRUE(check(joined.state));
  ASSERT_EQ(joined.state.jobs.size(), 1U);
  EXPECT_EQ(joined.index, (std::vector<int>{0, kNobody}));
  const Job& one = joined.state.jobs[0];
  EXPECT_EQ(one.parts, (std::vector<Part>{{0, 2}, {1, 2}}));
  EXPECT_EQ(one.charge, Charge::kBorrowed);
  EXPECT_EQ(one.own_part, 2);
}

TEST(PolicyFurther, WhatContradictsItselfIsNotJoined) {
  const auto joined = [](const ClusterState& state) { return with_companions(state, {{0, {1}}}).grown.size(); };
  ClusterState state = with_companion(8);
  ASSERT_EQ(joined(state), 1U);
  state.jobs[1].companion = false;
  EXPECT_EQ(joined(state), 0U) << "it is no companion";
  state = with_companion(8);
  state.jobs[1].yields_to = 99;
  EXPECT_EQ(joined(state), 0U) << "it is leaving";
  EXPECT_EQ(joined(with_companion(3)), 0U) << "it has more learners than it may";
  state = with_companion(8);
  state.jobs[0].gpus_per_learner = 2;
  state.jobs[0].parts = {{0, 1}};
  state.jobs[1].gpus_per_learner = 1;
  EXPECT_EQ(joined(state), 0U) << "a learner takes two GPUs, the companion has one";
  EXPECT_TRUE(further(state, {{0, {1}}}).empty());
  EXPECT_EQ(with_companions(with_companion(8), {{0, {1}}, {0, {1}}}).grown.size(), 1U) << "of two at once";
  EXPECT_EQ(with_companions(with_companion(100), {{0, std::vector<int>(kMostCompanions, 1)}}).grown.size(), 0U)
      << "it has as many as it may";
}

TEST(PolicyFurther, ItIsOfferedWholeNodesForAnotherCompanionUpToItsMaximum) {
  std::vector<Growth> growths = further(with_companion(8), {{0, {1}}});
  ASSERT_EQ(growths.size(), 1U);
  EXPECT_EQ(growths[0].job, 0);
  EXPECT_EQ(growths[0].before, 4);
  EXPECT_EQ(growths[0].learners, 4);
  EXPECT_EQ(growths[0].free, (std::vector<int>{2, 3}));
  growths = further(with_companion(7), {{0, {1}}});
  ASSERT_EQ(growths.size(), 1U);
  EXPECT_EQ(growths[0].learners, 2) << "a node has two";
  EXPECT_TRUE(further(with_companion(5), {{0, {1}}}).empty());
  EXPECT_TRUE(further(with_companion(8), {{0, {1}}}, linear, MayGrow::kNo).empty());
}

TEST(PolicyFurther, OnlyWhatPaysAndWhatItMayBorrow) {
  EXPECT_TRUE(further(with_companion(8), {{0, {1}}}, [](int) { return 1.0; }).empty()) << "it would be no faster";
  ClusterState state = with_companion(8);
  state.tenants[0].borrow_limit = 4;
  const std::vector<Growth> growths = further(state, {{0, {1}}});
  ASSERT_EQ(growths.size(), 1U);
  EXPECT_EQ(growths[0].nodes, 1) << "its companion borrows two GPUs already";
  state.tenants[0].borrow_limit = 2;
  EXPECT_TRUE(further(state, {{0, {1}}}).empty());
}

TEST(PolicyFurther, NotWhileAnybodyWaitsWhoCouldUseTheNodes) {
  ClusterState state = with_companion(8);
  add_job(&state, 1, 100);
  EXPECT_TRUE(further(state, {{0, {1}}}).empty());
}

// The owner claims a node's worth: one of two companions goes, and nobody else.
TEST(PolicyFurther, EachCompanionIsGivenBackByItself) {
  ClusterState state = with_companion(8);
  Job& second = add_running(&state, 0, {{2, 1}, {3, 1}}, Charge::kBorrowed, 2);
  second.tier = Tier::kBorrow;
  second.companion = true;
  second.saves = false;
  add_running(&state, 1, {{4, 2}}, Charge::kOwn);
  add_job(&state, 1, 2);
  ASSERT_TRUE(check(state));
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  EXPECT_TRUE(state.jobs[decision.reclaims[0].set.victims[0].job].companion);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].learners_left, 0);
}

}  // namespace
}  // namespace dl::policy::testing
