// SPDX-License-Identifier: Apache-2.0
// A guaranteed job and jobs of its own tenant that may borrow: who gives way, and to whom.
#include <gtest/gtest.h>

#include "slurm-plugin/policy/why.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::carry_out;
using testing::cluster;

// Tenants a and b with 4 GPUs each; a runs two jobs on its own 4, on the first node.
ClusterState full_quota(int nodes) {
  ClusterState state = cluster(nodes, 4);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 4);
  add_running(&state, 0, {{0, 2}}, Charge::kOwn).start_s = state.now_s - 900;
  add_running(&state, 0, {{0, 2}}, Charge::kOwn).checkpoint_s = state.now_s - 10;
  return state;
}

Job& add_guaranteed(ClusterState* state, int tenant, int gpus) {
  Job& job = add_job(state, tenant, gpus);
  job.tier = Tier::kGuaranteed;
  return job;
}

TEST(PolicyGuaranteed, has_jobs_of_its_tenant_charged_as_borrowed_while_gpus_are_free) {
  ClusterState state = full_quota(2);
  add_guaranteed(&state, 0, 2);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].charge, Charge::kOwn);
  EXPECT_TRUE(decision.reclaims.empty());
  // The youngest.
  ASSERT_EQ(decision.moves.size(), 1U);
  EXPECT_EQ(decision.moves[0].job, 1);
  EXPECT_EQ(decision.moves[0].to, Charge::kBorrowed);
  carry_out(&state, decision, false);
  const Decision next = decide(state);
  EXPECT_TRUE(next.moves.empty() && next.reclaims.empty());
}

TEST(PolicyGuaranteed, takes_from_its_own_tenant_and_from_nobody_else_where_no_gpu_is_free) {
  ClusterState state = full_quota(2);
  state.tenants[1].quota.by_type = {2};
  add_running(&state, 1, {{1, 2}}, Charge::kOwn);
  add_running(&state, 1, {{1, 2}}, Charge::kBorrowed).checkpoint_s = state.now_s - 1;  // loses least of all
  add_guaranteed(&state, 0, 2);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].job, 1);
  EXPECT_TRUE(decision.moves.empty());
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_TRUE(decision.waiting[0].within_tenant);
  EXPECT_EQ(why(state, decision, 4).sentence,
            "job 5 waits: its 2 GPUs are guaranteed, and jobs of tenant 'a' that may borrow give way to it; what "
            "becomes free is kept for it");
}

// The tenant borrows more than it may by now. One guaranteed job waits for a borrower that is protected, and which then
// gives room within the limit; until then there is none, so that the other one would stop a job for nothing.
TEST(PolicyGuaranteed, stops_nobody_now_for_room_that_only_a_protected_job_will_give) {
  ClusterState state = cluster(3, 8);
  state.nodes[0].gpus = 9;
  state.nodes[2].gpus = 1;
  add_tenant(&state, "a", 9).borrow_limit = 6;
  add_running(&state, 0, {{0, 9}}, Charge::kOwn).pausable = false;
  add_running(&state, 0, {{1, 8}}, Charge::kBorrowed).min_run_s = 1000;
  add_running(&state, 0, {{2, 1}}, Charge::kBorrowed);
  for (const int running : {1, 2}) state.jobs[running].tier = Tier::kBorrow;
  Job& large = add_job(&state, 0, 1, 2);
  large.tier = Tier::kGuaranteed;
  add_guaranteed(&state, 0, 1);
  Decision decision = decide(state);
  EXPECT_TRUE(decision.reclaims.empty());
  ASSERT_EQ(decision.waiting.size(), 2U);
  for (const Waiting& waiting : decision.waiting) EXPECT_EQ(waiting.reason, Reason::kVictimsProtected);
  state.now_s += 1000;
  decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].job, 1);
}

TEST(PolicyGuaranteed, waits_for_the_minimum_run_time_of_its_tenants_jobs) {
  ClusterState state = full_quota(1);
  for (Job& job : state.jobs) job.min_run_s = 1000;
  add_guaranteed(&state, 0, 2);
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.reclaims.empty());
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kVictimsProtected);
  EXPECT_EQ(decision.waiting[0].seconds, 500);
  EXPECT_EQ(why(state, decision, 2)
                .sentence.find("job 3 waits: its 2 GPUs are guaranteed; jobs of tenant 'a' that may "
                               "borrow give way to it, and may run for 8"),
            0U);
}

TEST(PolicyGuaranteed, stops_a_job_of_its_tenant_where_that_may_not_borrow_though_gpus_are_free) {
  ClusterState state = full_quota(2);
  state.tenants[0].borrow_limit = 1;
  add_guaranteed(&state, 0, 2);
  Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  state.tenants[0].borrow_limit = 2;
  EXPECT_TRUE(decide(state).reclaims.empty());
  // Nor where the others keep what is free.
  state.tenants[1].lend = GpuCounts{{1}, 0};
  decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims.size(), 1U);
}

TEST(PolicyGuaranteed, takes_nothing_from_another_guaranteed_job_or_one_that_cannot_be_paused) {
  ClusterState state = full_quota(1);
  state.jobs[0].tier = Tier::kGuaranteed;
  state.jobs[1].pausable = false;
  add_guaranteed(&state, 0, 2);
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.reclaims.empty());
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kQuota);
}

TEST(PolicyGuaranteed, goes_before_older_jobs_of_its_tenant_that_may_borrow) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 4);
  add_job(&state, 0, 4).submit_s = state.now_s - 5000;
  add_guaranteed(&state, 0, 4);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].job, 1);
}

// What its tenant borrows would grow by that, and the borrowing limit not have room any more for what has to leave.
TEST(PolicyGuaranteed, makes_no_job_of_another_type_leave_the_quota_while_it_waits) {
  ClusterState state = cluster(2, 8);
  state.types = {"a100", "h100"};
  state.nodes[1].type = 1;
  add_tenant(&state, "a", 0).quota.by_type = {1, 5};
  add_running(&state, 0, {{0, 5}}, Charge::kBorrowed).own_part = 1;
  add_running(&state, 0, {{1, 4}}, Charge::kOwn);
  Job& claim = add_job(&state, 0, 3);
  claim.tier = Tier::kGuaranteed;
  claim.type = 1;
  claim.promised = true;
  claim.promised_parts = {{1, 3}};
  EXPECT_TRUE(charge(state).empty());
}

// While the guaranteed job waits, the tenant is within its quota, and nobody else takes from it.
TEST(PolicyGuaranteed, does_not_make_victims_of_its_tenants_jobs_for_others) {
  ClusterState state = full_quota(2);
  state.jobs[1].charge = Charge::kBorrowed;
  add_running(&state, 1, {{1, 2}}, Charge::kOwn).pausable = false;
  add_guaranteed(&state, 0, 4).gpus_per_learner = 4;
  state.jobs[3].min_learners = state.jobs[3].max_learners = 1;
  state.jobs[0].min_run_s = 10'000;
  add_job(&state, 1, 1, 2).submit_s = state.now_s - 2000;  // b's own, older
  add_job(&state, 1, 1, 4).submit_s = state.now_s - 1900;  // more than b has left
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.reclaims.empty());
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].job, 4);
}

TEST(PolicyGuaranteed, shrinks_an_elastic_job_of_its_tenant_rather_than_stopping_it) {
  ClusterState state = full_quota(1);
  state.jobs.pop_back();
  Job& job = state.jobs[0];
  job.parts = {{0, 4}};
  job.min_learners = 1;
  job.max_learners = 4;
  add_guaranteed(&state, 0, 3);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].learners_left, 1);
}

// On small clusters the jobs that give way within a tenant are those of the least loss, where nothing but room is
// short.
TEST(PolicyGuaranteed, takes_from_its_tenant_what_loses_least) {
  int searches = 0;
  for (int seed = 0; seed < 20'000; ++seed) {
    testing::Dice dice(static_cast<uint64_t>(seed) + 5'000'000);
    ClusterState state = cluster(dice.from(1, 3), 4);
    const int gpus = static_cast<int>(state.nodes.size()) * 4;
    add_tenant(&state, "a", gpus);
    for (int node = 0; node * 4 < gpus; ++node) {
      for (int left = 4; left > 0;) {
        const int here = dice.from(1, left);
        Job& job = add_running(&state, 0, {{node, here}}, Charge::kOwn);
        job.checkpoint_s = state.now_s - dice.from(0, 1000);
        left -= here;
      }
    }
    const int size = 1 << dice.from(0, 2);
    Job& job = add_job(&state, 0, dice.from(1, 2), size);
    job.tier = Tier::kGuaranteed;
    const Decision decision = decide(state);
    if (decision.reclaims.empty()) {
      ASSERT_GT(job.min_learners * size, gpus) << "seed " << seed;
      continue;
    }
    ++searches;
    const int running = static_cast<int>(state.jobs.size()) - 1;
    int64_t best = INT64_MAX;
    for (unsigned set = 0; set < 1U << running; ++set) {
      FreeGpus free(state);
      int64_t lost = 0;
      for (int i = 0; i < running; ++i) {
        if (!(set >> i & 1U)) continue;
        free.give(state.jobs[i].parts, 1);
        lost += lost_if_paused(state, state.jobs[i]);
      }
      if (free.slots(0, size) >= job.min_learners) best = std::min(best, lost);
    }
    ASSERT_EQ(decision.reclaims[0].set.lost_gpu_s(), best) << "seed " << seed;
  }
  EXPECT_GT(searches, 10'000);
}

}  // namespace
}  // namespace dl::policy
