// SPDX-License-Identifier: Apache-2.0
// What the policy does, case by case, on clusters that can be drawn on a napkin.
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
using testing::cluster;

const Waiting* waiting_of(const Decision& decision, int job) {
  for (const Waiting& waiting : decision.waiting) {
    if (waiting.job == job) return &waiting;
  }
  return nullptr;
}

bool starts(const Decision& decision, int job) {
  return std::any_of(decision.starts.begin(), decision.starts.end(), [job](const Start& s) { return s.job == job; });
}

// Two nodes with 4 GPUs, 4 of them tenant a's and 4 tenant b's.
ClusterState two_tenants() {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 4);
  return state;
}

TEST(PolicyLending, lends_idle_gpus_beyond_the_quota) {
  ClusterState state = two_tenants();
  add_running(&state, 0, {{0, 4}}, Charge::kOwn);
  add_job(&state, 0, 4);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].charge, Charge::kBorrowed);
}

TEST(PolicyLending, keeps_what_the_owner_does_not_lend) {
  ClusterState state = two_tenants();
  state.tenants[1].lend = GpuCounts{{2}, 0};
  add_running(&state, 0, {{0, 4}}, Charge::kOwn);
  add_job(&state, 0, 3);
  add_job(&state, 0, 2);
  const Decision decision = decide(state);
  EXPECT_TRUE(starts(decision, 2));
  ASSERT_NE(waiting_of(decision, 1), nullptr);
  EXPECT_EQ(waiting_of(decision, 1)->reason, Reason::kKept);
  // The owner uses them at once.
  add_job(&state, 1, 2);
  EXPECT_TRUE(starts(decide(state), 3));
}

TEST(PolicyLending, stops_at_the_borrowing_limit) {
  ClusterState state = two_tenants();
  state.tenants[0].borrow_limit = 2;
  add_running(&state, 0, {{0, 4}}, Charge::kOwn);
  add_job(&state, 0, 3);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 0U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kBorrowLimit);
  EXPECT_EQ(decision.waiting[0].limit, 2);
}

TEST(PolicyLending, lends_first_within_the_group_of_tenants) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "lender", 4).group = 7;
  add_tenant(&state, "stranger", 0).weight = 100;
  add_tenant(&state, "neighbour", 0).group = 7;
  add_job(&state, 1, 4);
  add_job(&state, 2, 4);
  const Decision decision = decide(state);
  EXPECT_FALSE(starts(decision, 0));
  EXPECT_TRUE(starts(decision, 1));
}

TEST(PolicyLending, moves_a_borrowed_job_into_quota_that_becomes_free_without_a_restart) {
  ClusterState state = two_tenants();
  add_running(&state, 0, {{1, 4}}, Charge::kBorrowed);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.moves.size(), 1U);
  EXPECT_EQ(decision.moves[0].to, Charge::kOwn);
  EXPECT_TRUE(decision.reclaims.empty());
}

TEST(PolicyLending, moves_a_job_out_of_a_quota_that_was_lowered_without_a_restart) {
  ClusterState state = two_tenants();
  add_running(&state, 0, {{0, 4}}, Charge::kOwn);
  state.tenants[0].quota.by_type = {3};
  const Decision decision = decide(state);
  ASSERT_EQ(decision.moves.size(), 1U);
  EXPECT_EQ(decision.moves[0].to, Charge::kBorrowed);
}

TEST(PolicyLending, charges_a_request_without_a_type_to_the_type_it_gets) {
  ClusterState state = cluster(2, 4);
  state.types = {"a100", "k80"};
  state.nodes[1].type = 1;
  add_tenant(&state, "a", 0).quota.by_type = {0, 4};
  add_tenant(&state, "b", 0).quota.by_type = {4, 0};
  add_job(&state, 0, 4).type = kAnyType;
  Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].type, 1);
  EXPECT_EQ(decision.starts[0].charge, Charge::kOwn);
  // Its quota used up, the next one gets the other type, and that is borrowed: it does not slip past the typed quota.
  add_running(&state, 0, {{1, 4}}, Charge::kOwn);
  decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].type, 0);
  EXPECT_EQ(decision.starts[0].charge, Charge::kBorrowed);
}

TEST(PolicyReclaim, takes_back_from_the_job_that_loses_least) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed).checkpoint_s = state.now_s - 400;
  add_running(&state, 1, {{1, 4}}, Charge::kBorrowed).checkpoint_s = state.now_s - 10;
  add_job(&state, 0, 4);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].job, 1);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].lost_gpu_s, (10 + 60) * 4);
}

TEST(PolicyReclaim, takes_whole_nodes_where_the_claimant_needs_them) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  // The four cheapest GPUs lie on both nodes; a learner with 4 GPUs needs them on one.
  add_running(&state, 1, {{0, 2}}, Charge::kBorrowed).checkpoint_s = state.now_s - 1;
  add_running(&state, 1, {{0, 2}}, Charge::kBorrowed).checkpoint_s = state.now_s - 300;
  add_running(&state, 1, {{1, 2}}, Charge::kBorrowed).checkpoint_s = state.now_s - 1;
  add_running(&state, 1, {{1, 2}}, Charge::kBorrowed).checkpoint_s = state.now_s - 200;
  add_job(&state, 0, 1, 4);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 2U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].job, 2);
  EXPECT_EQ(decision.reclaims[0].set.victims[1].job, 3);
}

TEST(PolicyReclaim, shrinks_an_elastic_job_before_it_stops_any) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed).min_learners = 1;
  state.jobs[0].checkpoint_s = state.now_s - 499;  // would lose far more than the other
  add_running(&state, 1, {{1, 4}}, Charge::kBorrowed).checkpoint_s = state.now_s;
  add_job(&state, 0, 2);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  ASSERT_EQ(decision.reclaims[0].set.victims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].job, 0);
  EXPECT_EQ(decision.reclaims[0].set.victims[0].learners_left, 2);
}

TEST(PolicyReclaim, waits_for_the_minimum_run_time_and_keeps_the_place_meanwhile) {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed).min_run_s = 600;
  add_job(&state, 0, 8);
  add_job(&state, 1, 4);
  Decision decision = decide(state);
  EXPECT_TRUE(decision.reclaims.empty());
  ASSERT_NE(waiting_of(decision, 1), nullptr);
  EXPECT_EQ(waiting_of(decision, 1)->reason, Reason::kVictimsProtected);
  EXPECT_EQ(waiting_of(decision, 1)->seconds, 100);
  EXPECT_FALSE(starts(decision, 2)) << "the four free GPUs are the claim's";
  state.now_s += 100;
  EXPECT_EQ(decide(state).reclaims.size(), 1U);
}

TEST(PolicyReclaim, takes_nothing_from_a_job_that_cannot_be_paused) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed).pausable = false;
  add_job(&state, 0, 4);
  EXPECT_TRUE(decide(state).reclaims.empty());
}

TEST(PolicyReclaim, takes_nothing_for_a_job_that_wants_to_borrow) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed);
  add_job(&state, 0, 4).tier = Tier::kBorrow;
  EXPECT_TRUE(decide(state).reclaims.empty());
}

TEST(PolicyReclaim, gives_a_tenant_of_weight_zero_its_quota) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 4).weight = 0;
  add_tenant(&state, "b", 0).weight = 9;
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed);
  add_job(&state, 0, 4);
  EXPECT_EQ(decide(state).reclaims.size(), 1U);
}

TEST(PolicyReclaim, gives_what_victims_leave_to_the_next_claim_when_the_claimant_went_away) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 0);
  Job& victim = add_running(&state, 1, {{0, 4}}, Charge::kBorrowed);
  victim.yields_to = 99;
  add_job(&state, 0, 4);
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.reclaims.empty());
  ASSERT_EQ(decision.waiting.size(), 1U);
  EXPECT_EQ(decision.waiting[0].reason, Reason::kVictimsLeaving);
}

TEST(PolicyOrder, gives_idle_gpus_to_who_used_less_for_its_weight) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "heavy", 0).recent_gpu_s = 3e6;
  add_tenant(&state, "light", 0).recent_gpu_s = 2e6;
  add_job(&state, 0, 4);
  add_job(&state, 1, 4);
  EXPECT_TRUE(starts(decide(state), 1));
  state.tenants[0].weight = 2;
  EXPECT_TRUE(starts(decide(state), 0));
}

TEST(PolicyOrder, lets_small_jobs_pass_a_large_one_until_its_patience_ends) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 0);
  add_running(&state, 0, {{0, 4}}, Charge::kBorrowed);
  add_job(&state, 0, 2, 4).submit_s = state.now_s - 7000;
  add_job(&state, 0, 1);
  EXPECT_TRUE(starts(decide(state), 2));
  state.patience_s = 3600;
  const Decision decision = decide(state);
  EXPECT_TRUE(decision.starts.empty());
  EXPECT_TRUE(waiting_of(decision, 1)->kept_for);
}

TEST(PolicyOrder, starts_an_elastic_job_as_large_as_there_is_room) {
  ClusterState state = cluster(1, 4);
  add_tenant(&state, "a", 2);
  add_tenant(&state, "b", 2);
  add_running(&state, 1, {{0, 1}}, Charge::kOwn);
  add_job(&state, 0, 1).max_learners = 8;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].charge, Charge::kOwn);
  EXPECT_EQ(decision.starts[0].parts, (std::vector<Part>{{0, 2}}));
}

TEST(PolicyFairShare, use_counts_half_after_a_half_life) {
  EXPECT_NEAR(decayed_use(1000, 0, 3600, 3600), 500, 1e-6);
  // Steady use comes to rest where the average it stands for is itself.
  double use = 0;
  for (int i = 0; i < 1000; ++i) use = decayed_use(use, 10, 360, 3600);
  ClusterState state = cluster(1, 1);
  add_tenant(&state, "a", 0).recent_gpu_s = use;
  state.half_life_s = 3600;
  EXPECT_NEAR(fair_key(state, Ledger(state), 0), 10, 1e-3);
  // However finely the time is cut.
  EXPECT_NEAR(decayed_use(decayed_use(50, 3, 100, 700), 3, 200, 700), decayed_use(50, 3, 300, 700), 1e-6);
}

struct AdmissionCase {
  const char* what;
  Tier tier;
  int learners;
  int gpus;
  Excess excess;
  int allowed;
  const char* sentence;
};

TEST(PolicyAdmission, refuses_what_can_never_run_and_names_the_number) {
  ClusterState state = two_tenants();
  state.tenants[0].borrow_limit = 2;
  state.tenants[0].max_job_gpus = 7;
  const AdmissionCase cases[] = {
      {"in quota", Tier::kAuto, 4, 1, Excess::kNothing, 0, ""},
      {"a learner too large", Tier::kAuto, 1, 5, Excess::kNodeGpus, 4,
       "a learner with 5 GPUs of type 'a100' fits on no node; the largest has 4"},
      {"too many learners", Tier::kAuto, 7, 1, Excess::kBorrowLimit, 6,
       "7 GPUs of type 'a100' exceed the quota of 4; tenant 'a' may borrow 2 GPUs"},
      {"the quota and all that may be borrowed", Tier::kAuto, 2, 3, Excess::kNothing, 0, ""},
      {"one job too large", Tier::kAuto, 8, 1, Excess::kJobLimit, 7,
       "8 GPUs exceed what one job of tenant 'a' may have, 7 GPUs"},
      {"whole nodes", Tier::kBorrow, 3, 2, Excess::kBorrowLimit, 2, nullptr},
      {"guaranteed beyond quota", Tier::kGuaranteed, 5, 1, Excess::kQuota, 4,
       "a guaranteed job of 5 GPUs of type 'a100' exceeds the quota of tenant 'a', 4 GPUs"},
      {"borrowed in limit", Tier::kBorrow, 2, 1, Excess::kNothing, 0, ""},
      {"borrowed beyond limit", Tier::kBorrow, 3, 1, Excess::kBorrowLimit, 2,
       "3 GPUs of type 'a100' are asked for as borrowed; tenant 'a' may borrow 2 GPUs"},
  };
  for (const AdmissionCase& one : cases) {
    Job job;
    job.type = 0;
    job.tier = one.tier;
    job.min_learners = job.max_learners = one.learners;
    job.gpus_per_learner = one.gpus;
    const Admission admission = admit(state, job);
    EXPECT_EQ(admission.excess, one.excess) << one.what;
    EXPECT_EQ(admission.allowed, one.allowed) << one.what;
    EXPECT_TRUE(!one.sentence || admission.sentence == one.sentence) << one.what << ": " << admission.sentence;
  }
  state.tenants[1].lend = GpuCounts{{1}, 0};
  state.tenants[0] = Tenant{};
  state.tenants[0].name = "a";
  Job job;
  job.min_learners = job.max_learners = 6;
  const Admission admission = admit(state, job);
  EXPECT_EQ(admission.excess, Excess::kLendable);
  EXPECT_EQ(admission.allowed, 5);
}

TEST(PolicyWhy, says_what_a_job_waits_for_and_what_would_have_to_end) {
  ClusterState state = two_tenants();
  add_running(&state, 0, {{0, 4}}, Charge::kOwn);
  add_running(&state, 1, {{1, 4}}, Charge::kOwn);
  add_job(&state, 0, 2);
  const Decision decision = decide(state);
  const Why answer = why(state, decision, 2);
  EXPECT_EQ(answer.waiting.reason, Reason::kNoPlace);
  EXPECT_EQ(answer.would_have_to_end, std::vector<int>{1}) << "of two like it the youngest";
  EXPECT_EQ(answer.sentence,
            "job 3 waits: it asks for 2 GPUs; 0 are free; it could start if these ended: 2 of tenant 'b' (4 GPUs)");
  EXPECT_EQ(why(state, decision, 0).sentence, "job 1 runs");
}

TEST(PolicyWhy, says_that_free_gpus_do_not_lie_side_by_side) {
  ClusterState state = two_tenants();
  add_running(&state, 0, {{0, 2}}, Charge::kOwn);
  add_running(&state, 1, {{1, 2}}, Charge::kOwn);
  add_job(&state, 0, 1, 4).tier = Tier::kBorrow;
  const Why answer = why(state, decide(state), 2);
  EXPECT_NE(answer.sentence.find("4 are free, but not enough of them on one node"), std::string::npos)
      << answer.sentence;
}

TEST(PolicyState, is_refused_with_a_sentence_when_it_contradicts_itself) {
  ClusterState state = two_tenants();
  EXPECT_TRUE(check(state));
  add_running(&state, 0, {{0, 5}}, Charge::kOwn);
  EXPECT_EQ(check(state).error().text, "node 'n0' has 4 GPUs, and jobs hold 5");
  state.first_running = state.jobs.size();
  EXPECT_EQ(check(state).error().text,
            "job 1 runs, and the list puts the first job that runs at number " + std::to_string(state.jobs.size() + 1));
  state.first_running = 0;
  state.jobs.clear();
  add_job(&state, 7, 1);
  EXPECT_EQ(check(state).error().text, "job 1: tenant 7 does not exist");
  state.jobs.clear();
  state.tenants[0].weight = -1;
  EXPECT_EQ(check(state).error().text, "tenant 'a': weight -1 is not from 0 to 1000000");
  state = two_tenants();
  for (int i = 0; i < 300; ++i) add_tenant(&state, "t" + std::to_string(i), kMostGpus);
  EXPECT_EQ(check(state).error().text,
            "the quotas of all tenants and groups are 3000000008 GPUs together; allowed: up to 1000000000");
}

TEST(PolicyState, names_quotas_that_cannot_all_be_kept) {
  ClusterState state = two_tenants();
  EXPECT_TRUE(oversubscribed(state).empty());
  state.tenants[0].quota.by_type = {6};
  EXPECT_EQ(oversubscribed(state).front(), "tenants have a quota of 10 GPUs of type 'a100'; the nodes have 8");
}

TEST(PolicyPlacement, packs_by_the_best_fit_and_spreads_over_the_emptiest) {
  ClusterState state = cluster(3, 4);
  add_tenant(&state, "a", 0);
  add_running(&state, 0, {{1, 2}}, Charge::kBorrowed);
  const FreeGpus free(state);
  EXPECT_EQ(place_pack(free, 0, 1, 2), (std::vector<Part>{{1, 2}}));
  EXPECT_EQ(place_spread(free, 0, 1, 3), (std::vector<Part>{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(place_spread(free, 0, 1, 1), (std::vector<Part>{{0, 1}}));
  EXPECT_EQ(find_placement("spread")->placement, Placement::kSpread);
  EXPECT_EQ(find_placement("scatter"), nullptr);
  EXPECT_DOUBLE_EQ(fragmentation(free, 0, 4), 0.2);
}

TEST(PolicyPlacement, says_what_is_free_and_how_torn_it_is) {
  ClusterState state = cluster(4, 4);
  add_tenant(&state, "a", 0);
  add_running(&state, 0, {{0, 3}}, Charge::kBorrowed);
  add_running(&state, 0, {{1, 2}}, Charge::kBorrowed);
  state.nodes[3].usable = false;
  FreeOfType of = free_by_type(state).front();
  EXPECT_EQ(of.gpus, 7);
  EXPECT_EQ(of.nodes, 3);
  EXPECT_EQ(of.most, 4);
  EXPECT_EQ(of.node_gpus, 4);
  EXPECT_EQ(of.kept, 4);
  ASSERT_EQ(of.by_size.size(), 3U);  // 1, 2 and 4 GPUs
  EXPECT_DOUBLE_EQ(of.by_size[0].second, 0);
  EXPECT_DOUBLE_EQ(of.by_size[1].second, 1.0 / 7);
  EXPECT_DOUBLE_EQ(of.fragmentation(), 3.0 / 7);
  for (Node& node : state.nodes) node.usable = false;
  of = free_by_type(state).front();
  EXPECT_EQ(of.gpus, 0);
  EXPECT_EQ(of.kept, 11);
  EXPECT_TRUE(of.by_size.empty());
  EXPECT_DOUBLE_EQ(of.fragmentation(), 0);
}

}  // namespace
}  // namespace dl::policy
