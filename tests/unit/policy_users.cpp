// SPDX-License-Identifier: Apache-2.0
// How many GPUs one user of a tenant may hold: by hand, and on random clusters.
#include <gtest/gtest.h>

#include <map>

#include "slurm-plugin/policy/admission.h"
#include "slurm-plugin/policy/user_limits.h"
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
using testing::random_state;

// Two nodes of eight GPUs; vision has eight, of which one user may have four.
ClusterState two_nodes() {
  ClusterState state = cluster(2, 8);
  add_tenant(&state, "vision", 8).max_user_gpus = 4;
  state.users = {"alice", "bob"};
  return state;
}

const Waiting* waiting_of(const Decision& decision, int job) {
  for (const Waiting& waiting : decision.waiting)
    if (waiting.job == job) return &waiting;
  return nullptr;
}

TEST(UserLimits, CountsAllOfAUsersJobsOfATenant) {
  ClusterState state = two_nodes();
  add_running(&state, 0, {{0, 3}}, Charge::kOwn).user = 0;
  add_job(&state, 0, 2).user = 0;  // would be five
  add_job(&state, 0, 1).user = 0;  // a smaller one passes it
  add_job(&state, 0, 1).user = 0;
  add_job(&state, 0, 4).user = 1;
  add_job(&state, 0, 5);  // nobody knows whose: judged by itself alone, when it is submitted
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 3U);
  EXPECT_EQ(decision.starts[0].job, 2);
  EXPECT_EQ(decision.starts[1].job, 4);
  EXPECT_EQ(decision.starts[2].job, 5);
  for (const int job : {1, 3}) {
    ASSERT_NE(waiting_of(decision, job), nullptr);
    EXPECT_EQ(waiting_of(decision, job)->reason, Reason::kUserLimit);
    EXPECT_EQ(waiting_of(decision, job)->used, 4);
    EXPECT_EQ(waiting_of(decision, job)->limit, 4);
  }
  EXPECT_EQ(why(state, decision, 1).sentence,
            "job 2 waits: it asks for 2 GPUs; user alice has 4 of the 4 GPUs a user of tenant 'vision' may have");
}

TEST(UserLimits, HoldsForBorrowedAndGuaranteedJobs) {
  ClusterState state = two_nodes();
  state.tenants[0].quota.by_type = {2};
  for (const Tier tier : {Tier::kBorrow, Tier::kBorrow, Tier::kGuaranteed}) {
    Job& job = add_job(&state, 0, 2);
    job.user = 0;
    job.tier = tier;
  }
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 2U);  // the guaranteed one, as a claim, comes first
  EXPECT_EQ(decision.starts[0].job, 2);
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kUserLimit);
}

TEST(UserLimits, AnElasticJobStartsSmaller) {
  ClusterState state = two_nodes();
  add_running(&state, 0, {{0, 1}}, Charge::kOwn).user = 0;
  Job& job = add_job(&state, 0, 1);
  job.user = 0;
  job.max_learners = 8;
  Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].parts, (std::vector<Part>{{0, 3}}));
  state.jobs[1].tier = Tier::kBorrow;
  decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].parts, (std::vector<Part>{{0, 3}}));
}

TEST(UserLimits, NobodyGivesWayToAJobBeyondIt) {
  ClusterState state = two_nodes();
  add_tenant(&state, "nlp", 8);
  add_running(&state, 0, {{0, 4}}, Charge::kOwn).user = 0;
  add_running(&state, 1, {{1, 8}}, Charge::kOwn);
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed);
  add_job(&state, 0, 2).user = 0;
  EXPECT_TRUE(decide(state).reclaims.empty());
  state.jobs.back().user = 1;
  EXPECT_EQ(decide(state).reclaims.size(), 1U);
  // And to no more of them at once than that user may have then.
  add_job(&state, 0, 2).user = 1;
  add_job(&state, 0, 1).user = 1;
  const Decision decision = decide(state);
  ASSERT_NE(waiting_of(decision, 5), nullptr);
  EXPECT_EQ(waiting_of(decision, 5)->reason, Reason::kUserLimit);
}

TEST(UserLimits, AJobBeyondItByItselfIsNotAdmitted) {
  ClusterState state = two_nodes();
  const Admission found = admit(state, add_job(&state, 0, 5));
  EXPECT_EQ(found.excess, Excess::kUserLimit);
  EXPECT_EQ(found.sentence, "5 GPUs exceed what one user of tenant 'vision' may have, 4 GPUs");
}

TEST(UserLimits, AreCheckedLikeAllElse) {
  ClusterState state = two_nodes();
  add_job(&state, 0, 1).user = 2;
  EXPECT_FALSE(check(state));
  state.jobs[0].user = 1;
  EXPECT_TRUE(check(state));
  state.tenants[0].max_user_gpus = -2;
  EXPECT_FALSE(check(state));
}

std::map<std::pair<int, int>, int> held(const ClusterState& state) {
  std::map<std::pair<int, int>, int> gpus;
  for (const Job& job : state.jobs)
    if (job.running) gpus[{job.tenant, job.user}] += job.gpus();
  return gpus;
}

TEST(UserLimits, NobodyComesToHoldMoreOnRandomClusters) {
  int refused = 0;
  int started = 0;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Dice dice(seed);
    ClusterState state = random_state(&dice);
    state.users = {"a", "b", "c"};
    for (Tenant& tenant : state.tenants)
      if (dice.one_in(2)) tenant.max_user_gpus = dice.from(1, 8);
    for (Job& job : state.jobs) job.user = dice.from(kNobody, 2);
    ASSERT_TRUE(check(state));
    const auto before = held(state);
    const Decision decision = decide(state);
    ClusterState after = state;
    carry_out(&after, decision, false);
    for (const auto& [who, gpus] : held(after)) {
      const int limit = state.tenants[who.first].max_user_gpus;
      if (who.second == kNobody || limit == kNoLimit) continue;
      const auto was = before.find(who);
      ASSERT_LE(gpus, std::max(limit, was == before.end() ? 0 : was->second)) << "seed " << seed;
    }
    started += static_cast<int>(decision.starts.size());
    for (const Waiting& waiting : decision.waiting) {
      if (waiting.reason != Reason::kUserLimit) continue;
      ++refused;
      const Job& job = state.jobs[waiting.job];
      ASSERT_GT(waiting.used + waiting.asked, waiting.limit) << "seed " << seed;
      ASSERT_EQ(waiting.limit, state.tenants[job.tenant].max_user_gpus);
    }
    // Without a limit it does not matter whose the jobs are.
    for (Tenant& tenant : state.tenants) tenant.max_user_gpus = kNoLimit;
    const Decision with_users = decide(state);
    for (Job& job : state.jobs) job.user = kNobody;
    const Decision without = decide(state);
    ASSERT_EQ(with_users.starts.size(), without.starts.size());
    for (size_t i = 0; i < without.starts.size(); ++i) ASSERT_EQ(with_users.starts[i].parts, without.starts[i].parts);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(started, 1000);
}

}  // namespace
}  // namespace dl::policy
