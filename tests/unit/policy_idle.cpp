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

// Three nodes of 4: n0 and n2 with a100, n1 with k80. The tenant owns 2 a100 and 3 k80, and may borrow 5. On n1 a job
// holds 4 that it does not use, 3 of them within the quota; on n2 one holds 2 as own. A guaranteed one of 2 was
// promised n0, whose borrower has gone: when it starts, the one on n2 will be borrowed.
ClusterState promise_beside_an_idle_job() {
  ClusterState state = cluster(3, 4);
  state.types = {"a100", "k80"};
  state.nodes[1].type = 1;
  add_tenant(&state, "a", 2).quota.by_type = {2, 3};
  state.tenants[0].borrow_limit = 5;
  Job& idle = add_running(&state, 0, {{1, 4}}, Charge::kBorrowed);
  idle.type = 1;
  idle.own_part = 3;
  idle.idle = true;
  add_running(&state, 0, {{2, 2}}, Charge::kOwn);
  Job& claim = add_job(&state, 0, 2);
  claim.tier = Tier::kGuaranteed;
  claim.promised = true;
  claim.promised_parts = {{0, 2}};
  return state;
}

TEST(IdleJobTest, DoesNotUseUpTheRoomThatAPromiseCountedOn) {
  const ClusterState state = promise_beside_an_idle_job();
  ASSERT_TRUE(check(state));
  EXPECT_TRUE(charge(state).empty()) << "4 and the 2 that will be borrowed are more than 5";
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].job, 2);
  ClusterState roomy = promise_beside_an_idle_job();
  roomy.tenants[0].borrow_limit = 6;
  EXPECT_EQ(charge(roomy).size(), 1U);
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
