// SPDX-License-Identifier: Apache-2.0
// Fair shares among borrowers that run already (balance.h).
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "slurm-plugin/policy/why.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::carry_out;
using testing::cluster;
using testing::Dice;

// One node of 8 that nobody owns: tenant a has borrowed all of it, one GPU for each job; b waits with six such jobs.
ClusterState one_has_all() {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 0);
  for (int i = 0; i < 8; ++i) add_running(&state, 0, {{0, 1}}, Charge::kBorrowed);
  for (int i = 0; i < 6; ++i) add_job(&state, 1, 1);
  state.balance = true;
  return state;
}

int borrowed(const ClusterState& state, int tenant) {
  return Ledger(state).borrowed(tenant);
}

// Until nothing is decided any more; how many rounds that took.
int settle(ClusterState* state, int most = 50) {
  for (int round = 0; round < most; ++round) {
    const Decision decision = decide(*state);
    if (decision.starts.empty() && decision.reclaims.empty() && decision.moves.empty()) return round;
    carry_out(state, decision, true);
    state->now_s += 60;
  }
  return most;
}

TEST(Balance, is_off_by_default) {
  ClusterState state = one_has_all();
  EXPECT_FALSE(ClusterState().balance);
  state.balance = false;
  EXPECT_TRUE(decide(state).reclaims.empty());
}

TEST(Balance, gives_each_its_share_and_then_stops) {
  ClusterState state = one_has_all();
  EXPECT_LT(settle(&state), 20);
  EXPECT_EQ(borrowed(state, 0), 4);
  EXPECT_EQ(borrowed(state, 1), 4);
}

TEST(Balance, goes_by_weight) {
  ClusterState state = one_has_all();
  state.tenants[0].weight = 3;
  EXPECT_LT(settle(&state), 20);
  EXPECT_EQ(borrowed(state, 0), 6);
  state = one_has_all();
  state.tenants[0].weight = 0;
  EXPECT_LT(settle(&state), 20);
  EXPECT_EQ(borrowed(state, 0), 2) << "b has no more jobs than six";
  state = one_has_all();
  state.tenants[1].weight = 0;
  EXPECT_EQ(settle(&state), 0) << "who has no weight gets only what nobody else wants";
}

TEST(Balance, leaves_those_alone_that_are_protected_or_cannot_pause) {
  ClusterState state = one_has_all();
  for (Job& job : state.jobs) job.min_run_s = 3600;
  EXPECT_TRUE(decide(state).reclaims.empty());
  state = one_has_all();
  for (Job& job : state.jobs) job.pausable = false;
  EXPECT_TRUE(decide(state).reclaims.empty());
  state = one_has_all();
  for (Job& job : state.jobs) job.saves = false;
  EXPECT_TRUE(decide(state).reclaims.empty()) << "what it did would be lost, for mere fairness";
  state.tenants[1].quota.by_type = {1};
  EXPECT_EQ(decide(state).reclaims.size(), 1U) << "but an owner takes back from every job";
}

TEST(Balance, never_takes_what_a_tenant_owns) {
  ClusterState state = one_has_all();
  state.tenants[0].quota.by_type = {8};
  for (Job& job : state.jobs)
    if (job.running) job.charge = Charge::kOwn;
  EXPECT_EQ(settle(&state), 0);
}

TEST(Balance, shrinks_an_elastic_job_rather_than_stop_it) {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 0);
  add_running(&state, 0, {{0, 8}}, Charge::kBorrowed).min_learners = 1;
  add_job(&state, 1, 3);
  state.balance = true;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].learners_left, 5);
}

TEST(Balance, lets_a_loan_be_a_loan_where_the_quota_is_of_a_type_that_has_no_place) {
  ClusterState state = cluster(1, 8);
  state.types = {"a100", "k80"};
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 0).quota.by_type = {0, 1};  // of k80, of which there is no node
  Job& victim = add_running(&state, 0, {{0, 8}}, Charge::kBorrowed);
  victim.yields_to = 2;
  Job& loan = add_job(&state, 1, 1);
  loan.type = kAnyType;
  loan.promised = true;
  loan.charge = Charge::kBorrowed;
  loan.promised_parts = {{0, 1}};
  state.balance = true;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kVictimsLeaving);
  EXPECT_TRUE(decision.waiting[0].lent);
}

TEST(Balance, keeps_what_becomes_free_until_the_last_of_the_victims_has_gone) {
  ClusterState state = one_has_all();
  state.jobs.resize(8);
  add_job(&state, 1, 3);
  add_job(&state, 0, 1);  // would take what becomes free first
  Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 3U);
  ASSERT_EQ(decision.waiting.front().reason, Reason::kVictimsLeaving);
  EXPECT_TRUE(decision.waiting.front().lent);
  EXPECT_NE(why(state, decision, 8).sentence.find("are lent to tenant 'b'"), std::string::npos);
  const std::vector<Victim> victims = decision.reclaims[0].set.victims;
  carry_out(&state, decision, false);
  for (const Victim& victim : victims) state.jobs[victim.job].yields_to = state.jobs[8].id;
  for (const Victim& victim : victims) {
    decision = decide(state);
    EXPECT_TRUE(decision.starts.empty());
    EXPECT_TRUE(decision.reclaims.empty());
    carry_out(&state, decision, false);
    EXPECT_TRUE(state.jobs[8].promised);
    state.jobs[victim.job].running = false;
    state.jobs[victim.job].parts.clear();
  }
  decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].job, 8);
  EXPECT_EQ(decision.starts[0].charge, Charge::kBorrowed);
}

// A whole node is kept for a gang, from when the first job on it ends. The second one ends before that.
ClusterState gang_waits() {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 0);
  state.now_s = 100'000;
  state.patience_s = 600;
  state.balance = true;
  Job& first = add_running(&state, 0, {{0, 2}}, Charge::kBorrowed);
  first.pausable = false;
  first.start_s = state.now_s - 1000;
  first.limit_s = 2000;
  Job& second = add_running(&state, 0, {{0, 2}}, Charge::kBorrowed);
  second.start_s = state.now_s - 1000;
  second.limit_s = 1900;
  Job& gang = add_job(&state, 0, 1, 4);
  gang.submit_s = state.now_s - 10'000;
  Job& asker = add_job(&state, 1, 2);
  asker.submit_s = state.now_s - 60;
  return state;
}

TEST(Balance, takes_nothing_for_a_job_that_would_delay_a_gang_for_which_gpus_are_kept) {
  ClusterState state = gang_waits();
  state.jobs[3].limit_s = 5000;
  EXPECT_TRUE(decide(state).reclaims.empty());
  state.jobs[3].limit_s = 900;
  EXPECT_EQ(decide(state).reclaims.size(), 1U) << "it ends before the gang could start";
  state.jobs[3].limit_s = 9000;
  state.jobs[1].limit_s = 9000;
  state.jobs[0].limit_s = 8000;
  ASSERT_TRUE(decide(state).waiting[0].kept_for);
  EXPECT_TRUE(decide(state).reclaims.empty()) << "its victim would have ended before the gang starts";
  state.nodes.push_back(state.nodes[0]);
  state.jobs[1].parts = {{1, 2}};
  for (const int node : {0, 1}) {
    Job& beside = add_running(&state, 0, {{node, 2}}, Charge::kBorrowed);
    beside.pausable = false;
    beside.limit_s = node == 0 ? 4000 : 20'000;
  }
  ASSERT_EQ(decide(state).waiting[0].parts, (std::vector<Part>{{0, 1}}));
  EXPECT_EQ(decide(state).reclaims.size(), 1U) << "its victim would have run on beside the gang";
}

TEST(Balance, lets_other_jobs_have_the_quota_while_a_loan_waits_for_its_victims) {
  ClusterState state = cluster(1, 8);
  state.types = {"a100", "k80"};
  state.nodes.push_back(state.nodes[0]);
  state.nodes[1].type = 1;
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 0).quota.by_type = {1, 1};
  state.now_s = 100'000;
  state.patience_s = 600;
  state.balance = true;
  add_running(&state, 1, {{0, 1}}, Charge::kOwn);
  Job& victim = add_running(&state, 0, {{0, 7}}, Charge::kBorrowed);
  Job& loan = add_job(&state, 1, 1);
  victim.yields_to = loan.id;
  loan.submit_s = state.now_s - 10'000;
  loan.promised = true;
  loan.charge = Charge::kBorrowed;
  loan.promised_parts = {{0, 1}};
  Job& other = add_job(&state, 1, 1);
  other.type = 1;
  other.submit_s = state.now_s - 60;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].job, 3);
  EXPECT_EQ(decision.starts[0].charge, Charge::kOwn);
}

// Only borrowers, on random clusters where nothing comes or ends: nobody is moved twice for the same share, and it
// comes to rest.
TEST(Balance, ends_and_moves_nobody_twice_for_the_same_share) {
  int moved = 0;
  for (int seed = 0; seed < 3000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 77'000);
    ClusterState state = cluster(dice.from(1, 4), 1 << dice.from(1, 3));
    const int tenants = dice.from(2, 4);
    for (int i = 0; i < tenants; ++i) add_tenant(&state, "t" + std::to_string(i), 0).weight = dice.from(1, 4);
    const auto come = [&](int jobs, int first, int last) {
      for (int i = 0; i < jobs; ++i) {
        Job& job = add_job(&state, dice.from(first, last), dice.from(1, 3), 1 << dice.from(0, 1));
        if (dice.one_in(3)) job.max_learners += dice.from(1, 3);
      }
    };
    // One tenant comes alone, and borrows all; then the others do.
    come(dice.from(4, 16), 0, 0);
    settle(&state, 1);
    come(dice.from(2, 16), 0, tenants - 1);
    state.balance = true;
    std::set<std::tuple<int, int, int>> moves;  // victim, and what both tenants borrowed
    int round = 0;
    for (; round < 100; ++round) {
      const Decision decision = decide(state);
      if (decision.starts.empty() && decision.reclaims.empty()) break;
      const Ledger before(state);
      for (const Reclaim& reclaim : decision.reclaims) {
        for (const Victim& victim : reclaim.set.victims) {
          ++moved;
          const int from = before.borrowed(state.jobs[victim.job].tenant);
          const int to = before.borrowed(state.jobs[reclaim.claimant].tenant);
          ASSERT_TRUE(moves.emplace(victim.job, from, to).second) << "seed " << seed << ", round " << round;
        }
      }
      carry_out(&state, decision, true);
      state.now_s += 60;
      ASSERT_TRUE(check(state)) << "seed " << seed;
    }
    ASSERT_LT(round, 100) << "seed " << seed << " does not come to rest";
  }
  EXPECT_GT(moved, 1000);
}

}  // namespace
}  // namespace dl::policy
