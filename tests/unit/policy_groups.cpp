// SPDX-License-Identifier: Apache-2.0
// Trees of tenants: quota that a group owns itself, and lending first among its own; and the order within a tenant.
#include <gtest/gtest.h>

#include "slurm-plugin/policy/admission.h"
#include "slurm-plugin/policy/quota_rows.h"
#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/policy/tokens.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::cluster;

// Two nodes of 8. The department physics owns 4 itself, its group astro 2 and solid 2; chem, beside it, owns 8.
ClusterState physics() {
  ClusterState state = cluster(2, 8);
  state.groups.resize(2);
  state.groups[0].name = "physics";
  state.groups[0].quota.by_type = {4};
  state.groups[1].name = "science";
  state.groups[0].parent = 1;
  add_tenant(&state, "astro", 2).group = 0;
  add_tenant(&state, "solid", 2).group = 0;
  add_tenant(&state, "chem", 8).group = 1;
  return state;
}

TEST(Groups, own_what_their_tenants_may_use) {
  const ClusterState state = physics();
  ASSERT_TRUE(check(state));
  EXPECT_EQ(most_own(state, 0, 0), 6);
  EXPECT_EQ(most_own(state, 2, 0), 8);
  Ledger ledger(state);
  EXPECT_EQ(ledger.own_left(0, 0), 6);
  ledger.add(0, 0, 5, Charge::kOwn);
  EXPECT_EQ(ledger.own_left(0, 0), 1);
  EXPECT_EQ(ledger.own_left(1, 0), 3) << "2 of its own, 1 of the department";
  EXPECT_EQ(ledger.used_of_group(0), 3);
  EXPECT_EQ(ledger.own_left(2, 0), 8);
  ledger.add(0, 0, -5, Charge::kOwn);
  EXPECT_EQ(ledger.own_left(1, 0), 6);
  EXPECT_EQ(ledger.used_of_group(0), 0);
}

TEST(Groups, leave_each_tenant_its_own_quota_when_another_one_exceeds_the_groups) {
  const ClusterState state = physics();
  Ledger ledger(state);
  ledger.add(0, 0, 10, Charge::kOwn);  // as while a guaranteed job of it waits: 4 more than it and the department own
  EXPECT_EQ(ledger.own_left(0, 0), -4);
  EXPECT_EQ(ledger.own_left(1, 0), 2);
  EXPECT_EQ(ledger.own_left(2, 0), 8);
}

TEST(Groups, let_nobody_pay_for_a_tenant_whose_quota_was_cut) {
  ClusterState state = physics();
  add_running(&state, 0, {{0, 7}}, Charge::kOwn).tier = Tier::kGuaranteed;  // 1 more than it and the department own
  add_running(&state, 1, {{1, 2}}, Charge::kOwn);
  EXPECT_TRUE(charge(state).empty());
}

TEST(Groups, let_a_tenant_take_back_what_the_department_owns) {
  ClusterState state = physics();
  for (int i = 0; i < 2; ++i) add_running(&state, 2, {{i, 8}}, i == 0 ? Charge::kOwn : Charge::kBorrowed);
  add_job(&state, 0, 6);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.reclaims.size(), 1U);
  EXPECT_EQ(decision.reclaims[0].claimant, 2);
  add_job(&state, 1, 6);
  const Decision both = decide(state);
  ASSERT_EQ(both.waiting.size(), 2U);
  EXPECT_EQ(both.waiting[0].reason, Reason::kVictimsLeaving);
  EXPECT_NE(both.waiting[1].reason, Reason::kVictimsLeaving) << "the department's GPUs are promised already";
}

TEST(Groups, within_one_another_lend_to_the_nearest_first) {
  ClusterState state = physics();
  add_tenant(&state, "guest", 0);
  add_running(&state, 2, {{0, 8}}, Charge::kOwn);
  add_running(&state, 0, {{1, 6}}, Charge::kOwn);
  // 2 of solid's are idle: a stranger asked first, then chem, which lies in the same faculty, then astro.
  add_job(&state, 3, 2);
  add_job(&state, 2, 2);
  add_job(&state, 0, 2);
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 1U);
  EXPECT_EQ(decision.starts[0].job, 4);
  EXPECT_EQ(decision.starts[0].charge, Charge::kBorrowed);
  state.jobs.pop_back();
  EXPECT_EQ(decide(state).starts.at(0).job, 3) << "chem before the stranger";
}

TEST(Groups, have_tokens_of_their_own) {
  const ClusterState state = physics();
  EXPECT_EQ(format_licences(token_totals(state)), "dl_/physics/a100:4,dl_astro/a100:2,dl_chem/a100:8,dl_solid/a100:2");
  EXPECT_EQ(format_licences(*tokens_for(state, 0, 0, 5, Charge::kOwn)), "dl_astro/a100:2,dl_/physics/a100:3");
  EXPECT_FALSE(tokens_for(state, 0, 0, 7, Charge::kOwn));
  TokensLeft left(state);
  ASSERT_TRUE(tokens_for(state, 0, 0, 5, Charge::kOwn, &left));
  EXPECT_EQ(format_licences(*tokens_for(state, 1, 0, 3, Charge::kOwn, &left)), "dl_solid/a100:2,dl_/physics/a100:1");
  EXPECT_FALSE(tokens_for(state, 1, 0, 1, Charge::kOwn, &left));
  const auto token = parse_token("dl_/physics/a100");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->group, "physics");
  EXPECT_EQ(token->type, "a100");
  EXPECT_FALSE(parse_token("dl_/physics/borrow"));
  EXPECT_FALSE(parse_token("dl_//a100"));
}

TEST(Groups, admit_a_job_that_tenant_and_department_can_hold_together) {
  ClusterState state = physics();
  Job job = add_job(&state, 0, 6);
  job.tier = Tier::kGuaranteed;
  EXPECT_TRUE(admit(state, job).admitted());
  job.min_learners = job.max_learners = 7;
  EXPECT_EQ(admit(state, job).excess, Excess::kQuota);
}

TEST(Groups, are_refused_where_they_contradict_themselves) {
  ClusterState state = physics();
  state.groups[1].parent = 0;
  EXPECT_EQ(check(state).error().text, "group 'physics' lies in itself");
  state = physics();
  state.groups[1].parent = 7;
  EXPECT_FALSE(check(state));
  state = physics();
  state.tenants[0].quota = GpuCounts{{}, 2};
  EXPECT_NE(check(state).error().text.find("allowed: quotas by type alone below such a group"), std::string::npos);
}

TEST(Groups, are_read_from_dl_toml) {
  const auto site = parse_site_config(R"(
[tenant_groups.physics]
quota = { a100 = 4 }
parent = "science"
[tenant_groups.science]
[tenants.astro]
quota = { a100 = 2 }
group = "physics"
)",
                                      "dl.toml");
  ASSERT_TRUE(site) << site.error().text;
  const ClusterState state = state_of(*site);
  ASSERT_TRUE(check(state));
  ASSERT_EQ(state.groups.size(), 2U);
  EXPECT_EQ(most_own(state, 0, 0), 6);
  EXPECT_EQ(state.parent_of(state.tenants[0].group), 1);
  const std::vector<GroupRow> rows = group_rows(state);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].group, "physics");
  EXPECT_EQ(rows[0].parent, "science");
  EXPECT_EQ(rows[0].quota, 4);
}

TEST(Groups, of_dl_toml_are_refused_with_what_is_allowed) {
  const auto said = [](const std::string& text) {
    const auto site = parse_site_config(text, "dl.toml");
    return site ? std::string("taken") : site.error().text;
  };
  EXPECT_EQ(said("[tenant_groups.a]\nparent = \"b\"\n"),
            "dl.toml: tenant_groups.a.parent: group 'b' is not declared; allowed: a group with a table "
            "[tenant_groups.NAME] of its own");
  EXPECT_NE(said("[tenant_groups.a]\nparent = \"a\"\n").find("allowed: parents that lead to a group without a parent"),
            std::string::npos);
  EXPECT_NE(said("[tenant_groups.a]\nweight = 1\n")
                .find("dl.toml:2: tenant_groups.a.weight: unknown key; allowed: quota, parent"),
            std::string::npos);
  EXPECT_NE(said("[tenant_groups.a]\nquota = { a100 = 4 }\n[tenants.t]\nquota = 2\ngroup = \"a\"\n")
                .find("allowed below that: quotas by type, as quota = { a100 = 2 }"),
            std::string::npos);
  EXPECT_NE(said("[tenant_groups.a]\nquota = -1\n").find("dl.toml:2: tenant_groups.a.quota"), std::string::npos);
}

TEST(Nice, decides_within_a_tenant_and_not_between_tenants) {
  ClusterState state = cluster(1, 2);
  add_tenant(&state, "a", 1);
  add_tenant(&state, "b", 1);
  add_job(&state, 0, 1);
  add_job(&state, 0, 1).nice = -5;
  add_job(&state, 1, 1).nice = 100;
  const Decision decision = decide(state);
  ASSERT_EQ(decision.starts.size(), 2U);
  EXPECT_EQ(decision.starts[0].job, 1) << "the tenant's less nice job takes the turn of its oldest";
  EXPECT_EQ(decision.starts[1].job, 2) << "another tenant's nice job has its own quota all the same";
}

}  // namespace
}  // namespace dl::policy
