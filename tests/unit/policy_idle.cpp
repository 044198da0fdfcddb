// SPDX-License-Identifier: Apache-2.0
// Jobs that hold GPUs and do not use them, where the site lends such.
#include <gtest/gtest.h>

#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::cluster;

Charge charge_after(const ClusterState& state, int job) {
  Charge charge = state.jobs[job].charge;
  for (const Move& move : policy::charge(state))
    if (move.job == job) charge = move.to;
  return charge;
}

// a has 4 of its own, held by job 0, which uses none of them; b has 4 that are idle.
ClusterState idle_owner() {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 4);
  add_running(&state, 0, {{0, 4}}, Charge::kOwn).idle = true;
  return state;
}

TEST(IdleJobTest, DoesWithoutItsTenantsQuotaAndIsOwnAgainWhenItUsesItsGpus) {
  ClusterState state = idle_owner();
  ASSERT_EQ(charge_after(state, 0), Charge::kBorrowed);
  state.jobs[0].charge = Charge::kBorrowed;
  EXPECT_TRUE(charge(state).empty()) << "charging twice moves nothing";
  state.jobs[0].idle = false;
  EXPECT_EQ(charge_after(state, 0), Charge::kOwn);
}

TEST(IdleJobTest, AClaimOfItsTenantsTakesItsGpus) {
  ClusterState state = idle_owner();
  add_job(&state, 0, 4);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].job, 0);
  state.jobs[0].idle = false;
  EXPECT_TRUE(decide(state).reclaims.empty());
}

TEST(IdleJobTest, OneThatIsGuaranteedStaysOwn) {
  ClusterState state = idle_owner();
  state.jobs[0].tier = Tier::kGuaranteed;
  EXPECT_TRUE(charge(state).empty());
}

TEST(IdleJobTest, ATenantDoesNotBorrowMoreThanItMayForIt) {
  ClusterState state = idle_owner();
  state.tenants[0].borrow_limit = 3;
  EXPECT_TRUE(charge(state).empty());
  state.tenants[0].borrow_limit = 4;
  EXPECT_EQ(charge_after(state, 0), Charge::kBorrowed);
}

TEST(IdleJobTest, WhoUsesItsGpusMovesIntoTheQuotaThatAnIdleOneLeaves) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 4);
  add_running(&state, 0, {{0, 4}}, Charge::kOwn).idle = true;
  add_running(&state, 0, {{1, 4}}, Charge::kBorrowed);
  EXPECT_EQ(charge_after(state, 0), Charge::kBorrowed);
  EXPECT_EQ(charge_after(state, 1), Charge::kOwn);
}

}  // namespace
}  // namespace dl::policy
