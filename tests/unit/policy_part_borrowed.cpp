// SPDX-License-Identifier: Apache-2.0
// Jobs that are larger than what is left of their tenant's quota: what is left is charged as own, the rest as borrowed.
#include <gtest/gtest.h>

#include "slurm-plugin/policy/admission.h"
#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/why.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::carry_out;
using testing::cluster;

// Two nodes with 8 GPUs, and two tenants that own as many.
ClusterState two_eights() {
  ClusterState state = cluster(2, 8);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 8);
  return state;
}

// Tenant a runs 9 GPUs on 8 of its own, as the last decision left it.
Job& add_nine(ClusterState* state) {
  Job& job = add_running(state, 0, {{0, 8}, {1, 1}}, Charge::kBorrowed);
  job.own_part = 8;
  return job;
}

const Victim* victim_in(const Decision& decision, int job) {
  const Victim* found = nullptr;
  for (const Reclaim& reclaim : decision.reclaims)
    for (const Victim& victim : reclaim.set.victims)
      if (victim.job == job) found = &victim;
  return found;
}

TEST(PolicyPartBorrowed, only_what_exceeds_the_quota_counts_against_the_borrowing_limit) {
  ClusterState state = two_eights();
  state.tenants[0].borrow_limit = 7;
  add_running(&state, 0, {{0, 1}}, Charge::kOwn);
  add_job(&state, 0, 8);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].charge, Charge::kBorrowed);
  EXPECT_EQ(decision.starts[0].own_part, 7);
  carry_out(&state, decision, false);
  EXPECT_TRUE(check(state));
  const Ledger ledger(state);
  EXPECT_EQ(ledger.own(0), 8);
  EXPECT_EQ(ledger.borrowed(0), 1);
  EXPECT_TRUE(decide(state).moves.empty());
}

TEST(PolicyPartBorrowed, a_job_that_asks_to_borrow_takes_nothing_of_the_quota) {
  ClusterState state = two_eights();
  add_job(&state, 0, 9).tier = Tier::kBorrow;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].own_part, 0);
}

TEST(PolicyPartBorrowed, the_limit_still_holds_for_the_rest) {
  ClusterState state = two_eights();
  state.tenants[0].borrow_limit = 1;
  add_running(&state, 0, {{0, 2}}, Charge::kOwn);
  add_job(&state, 0, 8);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kBorrowLimit);
  EXPECT_EQ(decision.waiting[0].own, 6);
  EXPECT_NE(why(state, decision, 1).sentence.find("of which 6 are within its quota"), std::string::npos)
      << why(state, decision, 1).sentence;
}

TEST(PolicyPartBorrowed, is_admitted_by_what_it_would_have_to_borrow) {
  ClusterState state = two_eights();
  state.tenants[0].borrow_limit = 1;
  EXPECT_TRUE(admit(state, add_job(&state, 0, 9)).admitted());
  const Admission refused = admit(state, add_job(&state, 0, 10));
  EXPECT_EQ(refused.excess, Excess::kBorrowLimit);
  EXPECT_EQ(refused.allowed, 9);
  state.tenants[0].borrow_limit = kNoLimit;
  state.tenants[1].lend = GpuCounts{{1}, 0};
  EXPECT_TRUE(admit(state, add_job(&state, 0, 9)).admitted());
  EXPECT_EQ(admit(state, add_job(&state, 0, 10)).excess, Excess::kLendable);
}

TEST(PolicyPartBorrowed, a_running_job_is_charged_the_part_that_the_quota_has_left) {
  ClusterState state = two_eights();
  add_running(&state, 0, {{0, 8}, {1, 1}}, Charge::kBorrowed);
  const std::vector<Move> moves = charge(state);
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(moves[0].to, Charge::kBorrowed);
  EXPECT_EQ(moves[0].own_part, 8);
  EXPECT_LT(use_since_start(state, add_nine(&state)), use_since_start(state, state.jobs[0]));
}

TEST(PolicyPartBorrowed, a_lowered_quota_leaves_the_job_what_is_left_of_it) {
  ClusterState state = two_eights();
  add_running(&state, 0, {{0, 8}}, Charge::kOwn);
  state.tenants[0].quota.by_type = {5};
  const std::vector<Move> moves = charge(state);
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(moves[0].to, Charge::kBorrowed);
  EXPECT_EQ(moves[0].own_part, 5);
}

TEST(PolicyPartBorrowed, an_elastic_job_gives_back_what_it_borrows_and_no_more) {
  ClusterState state = two_eights();
  add_nine(&state).min_learners = 1;
  add_running(&state, 1, {{1, 7}}, Charge::kOwn);
  add_job(&state, 1, 1);
  const Decision decision = decide(state);
  const Victim* victim = victim_in(decision, 0);
  ASSERT_NE(victim, nullptr);
  EXPECT_EQ(victim->learners_left, 8);
  // What it is left with is its tenant's own, and is not taken from it.
  carry_out(&state, decision, true);
  EXPECT_EQ(decide(state).moves.at(0).to, Charge::kOwn);
}

TEST(PolicyPartBorrowed, what_is_own_is_not_shrunk_for_a_gang_of_whole_nodes) {
  ClusterState state = two_eights();
  Job& job = add_running(&state, 0, {{0, 5}, {1, 4}}, Charge::kBorrowed);
  job.own_part = 8;
  job.min_learners = 1;
  add_job(&state, 1, 1, 8);
  const Decision decision = decide(state);
  EXPECT_EQ(victim_in(decision, 0), nullptr);
}

TEST(PolicyPartBorrowed, a_rigid_job_gives_way_whole_where_nobody_else_can) {
  ClusterState state = two_eights();
  add_nine(&state);
  add_job(&state, 1, 8);
  const Decision decision = decide(state);
  const Victim* victim = victim_in(decision, 0);
  ASSERT_NE(victim, nullptr);
  EXPECT_EQ(victim->learners_left, 0);
}

TEST(PolicyPartBorrowed, of_equal_losses_the_job_goes_of_which_less_is_its_tenants_own) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 3);
  add_tenant(&state, "b", 4);
  add_tenant(&state, "c", 0);
  Job& part = add_running(&state, 0, {{0, 4}}, Charge::kBorrowed);
  part.own_part = 3;
  part.start_s += 100;  // of otherwise equal ones the youngest would go
  part.checkpoint_s = state.now_s - 300;
  add_running(&state, 2, {{1, 4}}, Charge::kBorrowed).checkpoint_s = state.now_s - 300;
  add_job(&state, 1, 4);
  const Decision decision = decide(state);
  EXPECT_EQ(victim_in(decision, 0), nullptr);
  EXPECT_NE(victim_in(decision, 1), nullptr);
}

TEST(PolicyPartBorrowed, a_guaranteed_job_takes_no_more_of_the_quota_than_it_needs) {
  ClusterState state = two_eights();
  state.tenants[0].borrow_limit = 3;
  add_nine(&state);
  add_job(&state, 0, 2).tier = Tier::kGuaranteed;
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.reclaims.empty());
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].charge, Charge::kOwn);
  ASSERT_EQ(decision.moves.size(), 1U);
  EXPECT_EQ(decision.moves[0].own_part, 6);
  carry_out(&state, decision, false);
  EXPECT_TRUE(decide(state).moves.empty());
}

TEST(PolicyPartBorrowed, an_idle_job_does_without_its_part_of_the_quota) {
  ClusterState state = two_eights();
  add_nine(&state).idle = true;
  const std::vector<Move> moves = charge(state);
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(moves[0].own_part, 0);
}

TEST(PolicyPartBorrowed, a_negative_part_is_refused) {
  ClusterState state = two_eights();
  add_nine(&state).own_part = -1;
  EXPECT_FALSE(check(state));
}

}  // namespace
}  // namespace dl::policy
