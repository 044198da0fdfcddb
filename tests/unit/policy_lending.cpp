// SPDX-License-Identifier: Apache-2.0
// Lending over sizes and time: elastic jobs by the fair share, gangs that small jobs pass, and what a job's word is
// worth.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/parse.h"
#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/why.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::cluster;
using testing::Dice;

int given(const ClusterState& state, const Decision& decision, int tenant) {
  int gpus = 0;
  for (const Start& start : decision.starts) {
    if (state.jobs[start.job].tenant != tenant) continue;
    for (const Part& part : start.parts) gpus += part.learners * state.jobs[start.job].gpus_per_learner;
  }
  return gpus;
}

const Waiting* waiting_of(const Decision& decision, int job) {
  for (const Waiting& waiting : decision.waiting)
    if (waiting.job == job) return &waiting;
  return nullptr;
}

TEST(PolicyElasticLending, divides_by_weight_and_not_by_who_is_first) {
  ClusterState state = cluster(1, 11);
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 0).weight = 4;
  add_job(&state, 0, 1).max_learners = 4;
  add_job(&state, 1, 1).max_learners = 8;
  Decision decision = decide(state);
  EXPECT_EQ(given(state, decision, 0), 3);
  EXPECT_EQ(given(state, decision, 1), 8);
  // Whoever was submitted last.
  std::swap(state.jobs[0].submit_s, state.jobs[1].submit_s);
  decision = decide(state);
  EXPECT_EQ(given(state, decision, 0), 3);
}

TEST(PolicyElasticLending, one_of_many_learners_does_not_grab_the_pool) {
  ClusterState state = cluster(8, 8);
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 0);
  add_job(&state, 0, 1).max_learners = 64;
  for (int i = 0; i < 64; ++i) add_job(&state, 1, 1);
  const Decision decision = decide(state);
  EXPECT_EQ(given(state, decision, 0), 32);
  EXPECT_EQ(given(state, decision, 1), 32);
  state.tenants[1].weight = 10;
  EXPECT_NEAR(given(state, decide(state), 0), 64 / 11.0, 1);
}

// Two tenants of equal weight for thirty days: one has elastic jobs of up to 64 learners, the other jobs of one GPU.
// Each always has more waiting, and a job ends after some hours.
TEST(PolicyElasticLending, over_thirty_days_each_gets_what_its_weight_is_due) {
  for (const int weight : {1, 3}) {
    Dice dice(7);
    ClusterState state = cluster(8, 8);
    add_tenant(&state, "a", 0);
    add_tenant(&state, "b", 0).weight = weight;
    int64_t id = 0;
    const auto refill = [&] {
      int waiting[2] = {0, 0};
      for (const Job& job : state.jobs) waiting[job.tenant] += job.running ? 0 : 1;
      for (; waiting[0] < 2; ++waiting[0]) add_job(&state, 0, 1).max_learners = 64;
      for (; waiting[1] < 64; ++waiting[1]) add_job(&state, 1, 1);
      for (Job& job : state.jobs)
        if (!job.running && job.limit_s == 0)
          job.id = ++id, job.submit_s = state.now_s, job.limit_s = dice.from(1, 12) * 3600;
    };
    int64_t given[2] = {0, 0};
    for (int hour = 0; hour < 30 * 24; ++hour) {
      refill();
      testing::carry_out(&state, decide(state), false);
      int held[2] = {0, 0};
      for (const Job& job : state.jobs) held[job.tenant] += job.gpus();
      for (int i = 0; i < 2; ++i) {
        given[i] += held[i];
        state.tenants[i].recent_gpu_s = decayed_use(state.tenants[i].recent_gpu_s, held[i], 3600, state.half_life_s);
      }
      state.now_s += 3600;
      state.jobs.erase(
          std::remove_if(state.jobs.begin(), state.jobs.end(),
                         [&](const Job& job) { return job.running && state.now_s - job.start_s >= job.limit_s; }),
          state.jobs.end());
    }
    const double share = static_cast<double>(given[1]) / static_cast<double>(given[0] + given[1]);
    EXPECT_NEAR(share, weight / (weight + 1.0), 0.03) << "weight " << weight;
  }
}

TEST(PolicyElasticLending, a_lone_job_gets_all_and_lies_as_if_placed_at_once) {
  ClusterState state = cluster(4, 8);
  add_tenant(&state, "a", 0);
  add_job(&state, 0, 1).max_learners = 16;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].parts, (std::vector<Part>{{0, 8}, {1, 8}}));
}

// Two nodes of 4: one is held for 1000 s yet, and a gang that needs both has waited two hours.
ClusterState gang_waits() {
  ClusterState state = cluster(2, 4);
  state.patience_s = 3600;
  add_tenant(&state, "a", 0);
  add_tenant(&state, "b", 0);
  add_running(&state, 0, {{0, 4}}, Charge::kBorrowed).limit_s = 1500;
  add_job(&state, 0, 2, 4).submit_s = state.now_s - 7200;
  return state;
}

TEST(PolicyReservation, small_jobs_that_end_in_time_pass_the_gang_and_others_do_not) {
  ClusterState state = gang_waits();
  add_job(&state, 1, 1).limit_s = 900;
  add_job(&state, 1, 1).limit_s = 1100;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].job, 2);
  ASSERT_NE(waiting_of(decision, 1), nullptr);
  EXPECT_TRUE(waiting_of(decision, 1)->kept_for);
  EXPECT_EQ(waiting_of(decision, 1)->parts.size(), 2U);
}

TEST(PolicyReservation, is_what_why_names_to_those_who_wait_for_it) {
  ClusterState state = gang_waits();
  add_job(&state, 1, 1).limit_s = 1100;
  const Decision decision = decide(state);
  const Waiting* small = waiting_of(decision, 2);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(small->reserved_for, 1);
  const Why answer = why(state, decision, 2);
  EXPECT_EQ(answer.sentence,
            "job " + job_name(state.jobs[2].id) + " waits: it asks for 1 GPUs; 4 are free, but are kept for job " +
                job_name(state.jobs[1].id) +
                " of tenant 'a' (8 GPUs), which has waited for 2h while smaller jobs passed it, and is expected to "
                "start within " +
                format_duration(std::chrono::seconds(small->reserved_s)) +
                "; a job whose time limit (--time) ends before that may start at once");
  EXPECT_TRUE(answer.would_have_to_end.empty());
  EXPECT_EQ(waiting_of(decision, 1)->reserved_for, -1) << "the gang itself";
  // One that would not fit anyhow waits for its place.
  add_job(&state, 1, 5).limit_s = 1100;
  EXPECT_EQ(waiting_of(decide(state), 3)->reserved_for, -1);
}

TEST(PolicyReservation, counts_what_the_quota_will_have_left_for_the_gang) {
  ClusterState state = gang_waits();
  state.tenants[0].quota.by_type = {3};
  state.tenants[0].borrow_limit = 6;  // 1 now, and 5 of the gang's 8
  state.jobs[0].own_part = 3;
  add_job(&state, 1, 1).limit_s = 1100;
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.starts.empty());
  ASSERT_NE(waiting_of(decision, 2), nullptr);
  EXPECT_EQ(waiting_of(decision, 2)->reserved_for, 1);
}

TEST(PolicyReservation, comes_before_tenants_whose_share_is_less) {
  ClusterState state = gang_waits();
  state.tenants[0].recent_gpu_s = 1e9;
  for (int i = 0; i < 4; ++i) add_job(&state, 1, 1).limit_s = 9000;
  EXPECT_TRUE(decide(state).starts.empty());
  // Once its place is free it starts before them.
  state.jobs.erase(state.jobs.begin());
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].job, 0);
}

TEST(PolicyReservation, keeps_gpus_no_longer_than_the_gang_has_waited) {
  ClusterState state = gang_waits();
  state.jobs[0].limit_s = 500 + 8000;
  for (int i = 0; i < 4; ++i) add_job(&state, 1, 1).limit_s = 90'000;
  EXPECT_EQ(decide(state).starts.size(), 4U);
  state.now_s += 1000;
  EXPECT_TRUE(decide(state).starts.empty());
}

TEST(PolicyWord, work_that_is_never_saved_counts_up_to_a_limit) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  Job& never = add_running(&state, 1, {{0, 4}}, Charge::kBorrowed);
  never.start_s = state.now_s - 90'000;
  never.restart_s = 1'000'000;
  EXPECT_EQ(lost_if_paused(state, state.jobs[0]), (state.most_unsaved_s + state.most_restart_s) * 4);
}

TEST(PolicyWord, of_equal_losses_the_youngest_goes_in_whatever_order_they_are_listed) {
  for (int seed = 0; seed < 50; ++seed) {
    Dice dice(static_cast<uint64_t>(seed));
    ClusterState state = cluster(1, 6);
    add_tenant(&state, "a", 6);
    add_tenant(&state, "b", 0);
    for (int i = 0; i < 6; ++i) {
      Job& job = add_running(&state, 1, {{0, 1}}, Charge::kBorrowed);
      job.start_s = state.now_s - 1000 + i;
      job.checkpoint_s = state.now_s - 10;
    }
    for (size_t i = 5; i > 0; --i) std::swap(state.jobs[i], state.jobs[dice.from(0, static_cast<int>(i))]);
    add_job(&state, 0, 2);
    state.search_budget = dice.one_in(2) ? 0 : 1000;
    const Decision decision = decide(state);
    ASSERT_EQ(decision.reclaims.size(), 1U);
    for (const Victim& victim : decision.reclaims[0].set.victims) EXPECT_GE(state.jobs[victim.job].id, 5) << seed;
  }
}

TEST(PolicyWord, a_start_ahead_of_the_clock_protects_nobody) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 0);
  Job& ahead = add_running(&state, 1, {{0, 4}}, Charge::kBorrowed);
  ahead.start_s = state.now_s + 100'000;
  ahead.min_run_s = 600;
  add_job(&state, 0, 4);
  EXPECT_EQ(decide(state).reclaims.size(), 1U);
}

}  // namespace
}  // namespace dl::policy
