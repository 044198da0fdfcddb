// SPDX-License-Identifier: Apache-2.0
// What is lent comes back, and what was promised is kept: states of several claims or several rounds, by hand.
#include <gtest/gtest.h>

#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::carry_out;
using testing::cluster;

// One node of 8, all of it tenant a's, and held by one elastic job of b's.
ClusterState one_elastic_borrower() {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 8}}, Charge::kBorrowed).min_learners = 1;
  return state;
}

// Victims are asked, and have not gone yet.
void ask(ClusterState* state, const Decision& decision) {
  carry_out(state, decision, false);
  for (const Reclaim& reclaim : decision.reclaims) {
    for (const Victim& victim : reclaim.set.victims) {
      Job& job = state->jobs[victim.job];
      if (job.yields_to == kNobody) job.yields_to = state->jobs[reclaim.claimant].id;
      job.yields_until_learners = victim.learners_left;
    }
  }
}

TEST(PolicySharedVictim, one_shrink_serves_all_claims_of_one_decision) {
  ClusterState state = one_elastic_borrower();
  for (int i = 0; i < 7; ++i) add_job(&state, 0, 1);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 7U);
  EXPECT_EQ(decision.reclaims.back().set.victims.back().learners_left, 1);
  EXPECT_EQ(decision.reclaims.back().set.lost_gpu_s(), 0) << "it pauses once";
  carry_out(&state, decision, true);
  EXPECT_EQ(state.jobs[0].learners(), 1);
  EXPECT_EQ(decide(state).starts.size(), 7U);
}

TEST(PolicySharedVictim, one_that_was_asked_gives_up_more_for_the_next_claim) {
  ClusterState state = one_elastic_borrower();
  state.jobs[0].min_run_s = 100;
  add_job(&state, 0, 1);
  ask(&state, decide(state));
  ASSERT_EQ(state.jobs[0].yields_until_learners, 7);
  add_job(&state, 0, 2);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].job, 0);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].learners_left, 5);
}

// The claim that asked has gone elsewhere; what leaves serves the one that was promised the rest of it.
TEST(PolicySharedVictim, a_promise_outlives_the_claim_that_asked_first) {
  ClusterState state = one_elastic_borrower();
  for (int i = 0; i < 2; ++i) add_job(&state, 0, 2);
  ask(&state, decide(state));
  state.jobs.erase(state.jobs.begin() + 1);
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.reclaims.empty());
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kVictimsLeaving);
}

// Two nodes of 8. c owns and holds 3 on the second, b borrows 2 on the first; a claims all of its 8 on one node, and
// has a younger job of 1 that borrows meanwhile.
TEST(PolicyPromise, quota_that_was_promised_is_not_given_to_who_borrows_meanwhile) {
  ClusterState state = cluster(2, 8);
  add_tenant(&state, "a", 8).borrow_limit = 4;
  add_tenant(&state, "b", 0);
  add_tenant(&state, "c", 3);
  add_running(&state, 2, {{1, 3}}, Charge::kOwn);
  add_running(&state, 1, {{0, 2}}, Charge::kBorrowed);
  add_job(&state, 0, 1, 8);
  add_job(&state, 0, 1);
  Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].charge, Charge::kBorrowed);
  ask(&state, decision);
  decision = decide(state);
  EXPECT_TRUE(decision.moves.empty());
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kVictimsLeaving);
  state.jobs[1].running = false;
  state.jobs[1].parts.clear();
  decision = decide(state);
  ASSERT_FALSE(decision.starts.empty());
  EXPECT_EQ(decision.starts[0].job, 2);
  EXPECT_EQ(decision.starts[0].charge, Charge::kOwn);
}

// Of two claims the smaller was promised the fuller node, where its learner fits best; the larger the emptier one.
TEST(PolicyPromise, nobody_takes_the_place_that_another_claim_was_promised) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 2}}, Charge::kBorrowed);
  add_running(&state, 1, {{1, 4}}, Charge::kBorrowed);
  Job& small = add_job(&state, 0, 1, 2);
  small.promised = true;
  small.promised_parts = {{1, 1}};
  Job& large = add_job(&state, 0, 1, 4);
  large.promised = true;
  large.promised_parts = {{0, 1}};
  state.jobs[0].yields_to = 4;
  state.jobs[1].yields_to = 3;
  // Two GPUs of the larger one's place are free; the smaller one would fit there.
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.starts.empty());
  EXPECT_TRUE(decision.reclaims.empty());
  for (const Waiting& waiting : decision.waiting) {
    EXPECT_EQ(waiting.reason, Reason::kVictimsLeaving);
    EXPECT_EQ(waiting.parts, state.jobs[waiting.job].promised_parts);
  }
}

TEST(PolicyPromise, one_that_waits_too_long_does_not_hold_up_what_its_tenant_was_promised) {
  ClusterState state = cluster(2, 4);
  state.patience_s = 100;
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed).pausable = false;
  add_running(&state, 1, {{1, 4}}, Charge::kBorrowed).yields_to = 4;
  add_job(&state, 0, 1, 8).promised = true;  // as large as no node: its promise can no longer be kept
  add_job(&state, 0, 4).promised = true;
  for (Job& job : state.jobs) job.submit_s = state.now_s - 1000;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.waiting.size(), 2U);
  EXPECT_EQ(decision.waiting[1].reason, Reason::kVictimsLeaving);
}

}  // namespace
}  // namespace dl::policy
