// SPDX-License-Identifier: Apache-2.0
// Replays small enough to be worked out by hand.
#include <gtest/gtest.h>

#include "common/base/atomic_file.h"
#include "tests/unit/sim_support.h"

namespace dl::sim {
namespace {

using testing::replayed;
using testing::scenario_of;
using testing::trace_of;

TEST(SimEngine, one_job_waits_for_nobody) {
  const Outcome outcome = replayed(trace_of("1,0,a,4,1,100,,,\n"), "fifo", scenario_of("g=1x4", 4, 0));
  EXPECT_EQ(outcome.completed, 1);
  EXPECT_EQ(outcome.queue.mean, 0);
  EXPECT_EQ(outcome.jct.mean, 100);
  EXPECT_EQ(outcome.makespan_s, 100);
  EXPECT_DOUBLE_EQ(outcome.utilisation, 1);
  EXPECT_EQ(outcome.lost_gpu_h, 0);
}

TEST(SimEngine, fifo_lets_nobody_pass_and_backfill_only_who_delays_nobody) {
  // 1 holds half; 2 wants all and waits for 1; 3 would fit beside 1 and end with it, 4 would end later.
  const Trace trace = trace_of("1,0,a,2,1,100,,,\n2,1,a,4,1,50,,,\n3,2,a,2,1,98,,,\n4,3,a,2,1,98,,,\n");
  const Scenario scenario = scenario_of("g=1x4", 4, 0);
  const Outcome fifo = replayed(trace, "fifo", scenario);
  EXPECT_EQ(fifo.makespan_s, 248);  // 2 from 100, 3 and 4 from 150
  EXPECT_EQ(fifo.jct.mean, (100 + 149 + 246 + 245) / 4.0);
  const Outcome backfill = replayed(trace, "backfill", scenario);
  EXPECT_EQ(backfill.jct.mean, (100 + 149 + 98 + 245) / 4.0);  // 3 at once, 4 from 150
}

TEST(SimEngine, a_borrower_yields_to_the_owner_and_goes_on_from_its_last_checkpoint) {
  // b borrows all from 0, saves every 30 s. a claims its half at 100: b is asked, and gone at 110 with 90 s of work
  // kept.
  const Trace trace = trace_of("1,0,b,4,1,200,30,20,\n2,100,a,4,1,50,,,\n");
  const Outcome outcome = replayed(trace, "lend", scenario_of("g=1x4", 4, 0));
  EXPECT_EQ(outcome.completed, 2);
  EXPECT_EQ(outcome.stops, 1);
  EXPECT_EQ(outcome.most_pauses, 1);
  // a runs from 110 to 160; b from 160, 20 s of restart and 110 s of work.
  EXPECT_EQ(outcome.makespan_s, 290);
  EXPECT_EQ(outcome.queue.p99, 10);
  EXPECT_NEAR(outcome.lost_gpu_h, 4 * (20.0 + 20.0) / 3600, 1e-9);  // 20 s not saved, 20 s of restart
  EXPECT_EQ(outcome.ping_pong, 0);
}

TEST(SimEngine, static_quotas_lend_nothing) {
  const Trace trace = trace_of("1,0,b,2,1,100,,,\n2,0,b,2,1,100,,,\n3,0,b,4,1,100,,,\n");
  const Outcome outcome = replayed(trace, "static", scenario_of("g=1x4", 2, 2));
  EXPECT_EQ(outcome.refused, 1);  // 3 exceeds the quota
  EXPECT_EQ(outcome.completed, 2);
  EXPECT_EQ(outcome.makespan_s, 200);
  EXPECT_EQ(replayed(trace, "lend", scenario_of("g=1x4", 2, 2)).makespan_s, 200);  // 1 and 2 together, then 3
}

// 64 GPUs of a's, lent to 64 jobs or to one of 64 learners; then a brings 56 jobs, one every 10 s.
TEST(SimEngine, owners_wait_no_longer_for_an_elastic_borrower_than_for_rigid_ones) {
  std::string claims;
  for (int i = 0; i < 56; ++i)
    claims += std::to_string(100 + i) + "," + std::to_string(2000 + 10 * i) + ",a,1,1,9000,,,\n";
  std::string rigid;
  for (int i = 0; i < 64; ++i) rigid += std::to_string(1 + i) + ",0,b,1,1,90000,600,60,\n";
  Scenario scenario = scenario_of("g=8x8", 64, 0);
  scenario.min_run_s = 600;
  scenario.yield_s = 30;
  const Outcome beside_rigid = replayed(trace_of(rigid + claims), "lend", scenario);
  const Outcome beside_elastic = replayed(trace_of("1,0,b,1,1:64,90000,600,60,\n" + claims), "lend", scenario);
  EXPECT_EQ(beside_rigid.completed, 120);
  EXPECT_EQ(beside_elastic.completed, 57);
  const auto owners = [](const Outcome& outcome) {
    for (const TenantOutcome& tenant : outcome.tenants)
      if (tenant.name == "a") return tenant.queue;
    return Times{};
  };
  EXPECT_EQ(owners(beside_rigid).p99, 30);
  EXPECT_LE(owners(beside_elastic).mean, owners(beside_rigid).mean);
  EXPECT_LE(owners(beside_elastic).p99, 30);
  // Asked while it is leaving, it pauses once for the claims of half a minute.
  EXPECT_LE(beside_elastic.shrinks, 20);
}

// 3,000 jobs of one GPU and 12 gangs of all 64, from a load that fits to one that does not.
TEST(SimEngine, gpus_kept_for_gangs_of_the_whole_cluster_leave_it_as_busy_as_backfill_does) {
  for (const int days : {2, 5, 10}) {
    std::string lines = "id,submit,tenant,gpus,learners,run,limit\n";
    const int span_s = days * 86400, runs[] = {600, 1800, 3600, 7200, 14400};
    for (int i = 0; i < 3000; ++i) {
      const int run = runs[i * 7 % 5];
      lines += std::to_string(1 + i) + "," + std::to_string(i * (span_s / 3000)) + ",b,1,1," + std::to_string(run) +
               "," + std::to_string(run + run / 5) + "\n";
    }
    for (int i = 0; i < 12; ++i)
      lines += std::to_string(4001 + i) + "," + std::to_string(span_s / 24 + i * (span_s / 12)) + ",a,8,8,3600,7200\n";
    const auto trace = parse_trace(lines, "trace");
    ASSERT_TRUE(trace) << trace.error().text;
    Scenario scenario = scenario_of("g=8x8", 0, 0);
    scenario.cluster.patience_s = 3600;
    const Outcome lend = replayed(*trace, "lend", scenario), backfill = replayed(*trace, "backfill", scenario);
    EXPECT_EQ(lend.completed, 3012) << days << " days";
    EXPECT_GE(lend.utilisation, 0.9 * backfill.utilisation) << days << " days";
    EXPECT_LE(lend.queue.mean, 1.5 * backfill.queue.mean) << days << " days";
  }
}

TEST(SimEngine, an_elastic_victim_shrinks_and_takes_longer) {
  // b runs with 4 learners, half of them borrowed. a claims 2: b goes on with 2.
  const Trace trace = trace_of("1,0,b,1,2:4,100,10,0,borrow\n2,50,a,2,1,100,,,\n");
  const Outcome outcome = replayed(trace, "lend", scenario_of("g=1x4", 2, 2));
  EXPECT_EQ(outcome.shrinks, 1);
  EXPECT_EQ(outcome.stops, 0);
  // 60 s with four learners leave 160 learner-seconds: 80 s with two.
  EXPECT_EQ(outcome.makespan_s, 160);
  EXPECT_EQ(outcome.completed, 2);
}

TEST(SimEngine, without_gangs_jobs_block_one_another_and_with_gangs_never) {
  // Four jobs of two learners each want the two nodes at once, learner by learner in no order.
  std::string lines;
  for (int i = 1; i <= 12; ++i) lines += std::to_string(i) + ",0,a,4,2,100,,,\n";
  const Trace trace = trace_of(lines);
  Scenario scenario = scenario_of("g=4x4", 16, 0);
  scenario.stuck_s = 1000;
  const Outcome mixed = replayed(trace, "no-gang-mixed", scenario);
  EXPECT_GT(mixed.deadlocks, 0);
  EXPECT_GT(mixed.withdrawn, 0);
  EXPECT_GT(mixed.held_idle, 0);
  EXPECT_EQ(mixed.completed, 12);
  const Outcome gang = replayed(trace, "fifo", scenario);
  EXPECT_EQ(gang.deadlocks, 0);
  EXPECT_EQ(gang.held_idle, 0);
  EXPECT_EQ(gang.makespan_s, 600);
  EXPECT_GT(mixed.makespan_s, gang.makespan_s);
}

TEST(SimEngine, a_deadlock_that_nobody_ends_leaves_jobs_unfinished) {
  // Two jobs of three learners, two places each.
  const Trace trace = trace_of("1,0,a,4,3,100,,,\n2,0,a,4,3,100,,,\n3,0,a,4,3,100,,,\n4,0,a,4,3,100,,,\n");
  Scenario scenario = scenario_of("g=4x4", 16, 0);
  scenario.stuck_s = 0;
  bool stuck = false;
  for (uint64_t seed = 1; seed <= 20 && !stuck; ++seed) {
    scenario.seed = seed;
    const Outcome outcome = replayed(trace, "no-gang-mixed", scenario);
    stuck = outcome.unfinished > 0;
    if (stuck) {
      EXPECT_EQ(outcome.deadlocks, 1);
    }
    EXPECT_EQ(outcome.completed + outcome.unfinished, 4);
  }
  EXPECT_TRUE(stuck);
}

TEST(SimEngine, spread_leaves_no_whole_node_where_pack_does) {
  // Four small jobs on four nodes, then one that wants a whole node.
  const Trace trace =
      trace_of("1,0,a,1,1,100,,,\n2,0,a,1,1,100,,,\n3,0,a,1,1,100,,,\n4,0,a,1,1,100,,,\n5,1,a,4,1,10,,,\n");
  const Scenario scenario = scenario_of("g=4x4", 16, 0);
  EXPECT_EQ(replayed(trace, "backfill", scenario).queue.p99, 0);
  EXPECT_EQ(replayed(trace, "backfill-spread", scenario).queue.p99, 99);
  EXPECT_GT(replayed(trace, "backfill-spread", scenario).fragmentation,
            replayed(trace, "backfill", scenario).fragmentation);
}

TEST(SimEngine, what_does_not_exist_is_named) {
  const Scenario scenario = scenario_of("g=1x4", 4, 0);
  const SimPolicy& fifo = *find_sim_policy("fifo");
  const auto tenant = replay(trace_of("1,0,zoe,1,1,9,,,\n"), fifo, scenario);
  ASSERT_FALSE(tenant);
  EXPECT_EQ(tenant.error().text, "job 1: there is no tenant 'zoe'; allowed: a, b");
  const auto type = replay(trace_of("1,0,a,h100:1,1,9,,,\n"), fifo, scenario);
  ASSERT_FALSE(type);
  EXPECT_EQ(type.error().text, "job 1: no node has GPUs of type 'h100'; allowed: g");
}

TEST(SimEngine, policies_and_nodes_are_parsed_or_refused) {
  EXPECT_EQ(parse_sim_policies("all")->size(), sim_policies().size());
  EXPECT_EQ(parse_sim_policies("fifo,lend,fifo")->size(), 2U);
  for (const char* bad : {"", "best", "lend,", "lend,best"}) {
    const auto policies = parse_sim_policies(bad);
    ASSERT_FALSE(policies) << bad;
    EXPECT_NE(policies.error().text.find("allowed: all, lend"), std::string::npos);
  }
  const policy::ClusterState state = testing::cluster_of("a=2x8,b=1x4,a=1x2", 1);
  EXPECT_EQ(state.types, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(gpus_in_all(state), 22);
  ASSERT_EQ(state.nodes.size(), 4U);
  EXPECT_EQ(state.nodes[1].leaf_switch, 1);
  EXPECT_EQ(state.nodes[3].type, 0);
  for (const char* bad :
       {"", "8", "a=8", "a=0x8", "a=8x0", "a=8x8,", "=8x8", "a b=8x8", "a=8x8x8", "a=100000x1,b=1x1"}) {
    policy::ClusterState none;
    const Status status = set_nodes(bad, &none);
    ASSERT_FALSE(status) << bad;
    EXPECT_NE(status.error().text.find("allowed: TYPE=COUNTxGPUS"), std::string::npos);
  }
}

class SimSite : public ::testing::Test {
 protected:
  std::string write(const std::string& text) const {
    const std::string path = ::testing::TempDir() + "dlsim-site.toml";
    EXPECT_TRUE(write_file_atomically(path, text));
    return path;
  }
};

TEST_F(SimSite, the_configuration_tells_nodes_tenants_and_times) {
  const auto site =
      read_site(write("[nodes.types]\na100 = 8\n[nodes.counts]\na100 = 3\n[quota]\nmin_run = \"5m\"\npatience = "
                      "\"2h\"\nmost_unsaved = \"1h\"\n"
                      "[tenants.vision]\nquota = 16\n[tenants.nlp]\nquota = { a100 = 4 }\nborrow_limit = 8\n"));
  ASSERT_TRUE(site) << site.error().text;
  EXPECT_EQ(gpus_in_all(site->cluster), 24);
  EXPECT_EQ(site->cluster.tenants.size(), 2U);
  EXPECT_EQ(site->cluster.patience_s, 7200);
  EXPECT_EQ(site->cluster.most_unsaved_s, 3600);
  EXPECT_EQ(site->min_run_s, 300);
  // Other nodes for the same tenants.
  policy::ClusterState more = site->cluster;
  ASSERT_TRUE(set_nodes("a100=10x8,h100=1x4", &more));
  EXPECT_EQ(more.types, (std::vector<std::string>{"a100", "h100"}));
  EXPECT_EQ(gpus_in_all(more), 84);
  // A trace's tenants are found whatever their case; one that is not there is named.
  Scenario scenario;
  scenario.cluster = more;
  EXPECT_EQ(replayed(trace_of("1,0,Vision,1,1,9,,,\n"), "lend", scenario).completed, 1);
}

TEST_F(SimSite, a_configuration_that_is_not_there_or_wrong_is_refused) {
  const auto missing = read_site("/nonexistent/dl.toml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  const auto wrong = read_site(write("[tenants.vision]\nquta = 1\n"));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().text.find(":2: tenants.vision.quta: unknown key"), std::string::npos) << wrong.error().text;
}

// One job has all GPUs; what comes after it can only wait, and no decision has anything new to say of it.
TEST(SimEngine, jobs_like_an_older_one_that_waits_need_no_decision) {
  std::string lines = "1,0,a,4,1,9000,,,\n";
  for (int i = 2; i <= 200; ++i) lines += std::to_string(i) + "," + std::to_string(i) + ",a,2,1,10,,,\n";
  Scenario scenario = scenario_of("g=1x4", 4, 0);
  scenario.cluster.patience_s = 600;
  for (const char* policy : {"lend", "fifo", "backfill"}) {
    const Outcome outcome = replayed(trace_of(lines), policy, scenario);
    EXPECT_EQ(outcome.completed, 200) << policy;
    EXPECT_EQ(outcome.makespan_s, 9000 + 100 * 10) << policy;
    // One for each moment at which jobs end, two for the first two submissions, and one for lost patience.
    EXPECT_LE(outcome.decisions, 101 + 4) << policy;
  }
  // A smaller one, or one that ends sooner, may pass.
  const std::string passes = "1,0,a,2,1,100,,,\n2,1,a,4,1,50,,,\n3,2,a,2,1,98,,,\n";
  EXPECT_EQ(replayed(trace_of(passes), "backfill", scenario).makespan_s, 150);
}

}  // namespace
}  // namespace dl::sim
