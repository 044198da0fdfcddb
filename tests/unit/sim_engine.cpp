// SPDX-License-Identifier: Apache-2.0
// Replays small enough to be worked out by hand.
#include <gtest/gtest.h>

#include "tests/unit/sim_support.h"

namespace dl::sim {
namespace {

using testing::replayed;
using testing::setup_of;
using testing::trace_of;

TEST(SimEngine, one_job_waits_for_nobody) {
  const Outcome outcome = replayed(trace_of("1,0,a,4,1,100,,,\n"), "fifo", setup_of("g=1x4", 4, 0));
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
  const Scenario setup = setup_of("g=1x4", 4, 0);
  const Outcome fifo = replayed(trace, "fifo", setup);
  EXPECT_EQ(fifo.makespan_s, 248);  // 2 from 100, 3 and 4 from 150
  EXPECT_EQ(fifo.jct.mean, (100 + 149 + 246 + 245) / 4.0);
  const Outcome backfill = replayed(trace, "backfill", setup);
  EXPECT_EQ(backfill.jct.mean, (100 + 149 + 98 + 245) / 4.0);  // 3 at once, 4 from 150
}

TEST(SimEngine, a_borrower_yields_to_the_owner_and_goes_on_from_its_last_checkpoint) {
  // b borrows all from 0, saves every 30 s. a claims its half at 100: b is asked, and gone at 110 with 90 s of work
  // kept.
  const Trace trace = trace_of("1,0,b,4,1,200,30,20,\n2,100,a,4,1,50,,,\n");
  const Outcome outcome = replayed(trace, "lend", setup_of("g=1x4", 4, 0));
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
  const Outcome outcome = replayed(trace, "static", setup_of("g=1x4", 2, 2));
  EXPECT_EQ(outcome.refused, 1);  // 3 exceeds the quota
  EXPECT_EQ(outcome.completed, 2);
  EXPECT_EQ(outcome.makespan_s, 200);
  EXPECT_EQ(replayed(trace, "lend", setup_of("g=1x4", 2, 2)).makespan_s, 200);  // 1 and 2 together, then 3
}

TEST(SimEngine, an_elastic_victim_shrinks_and_takes_longer) {
  // b runs with 4 learners, half of them borrowed. a claims 2: b goes on with 2.
  const Trace trace = trace_of("1,0,b,1,2:4,100,10,0,borrow\n2,50,a,2,1,100,,,\n");
  const Outcome outcome = replayed(trace, "lend", setup_of("g=1x4", 2, 2));
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
  Scenario setup = setup_of("g=4x4", 16, 0);
  setup.stuck_s = 1000;
  const Outcome mixed = replayed(trace, "no-gang-mixed", setup);
  EXPECT_GT(mixed.deadlocks, 0);
  EXPECT_GT(mixed.withdrawn, 0);
  EXPECT_GT(mixed.held_idle, 0);
  EXPECT_EQ(mixed.completed, 12);
  const Outcome gang = replayed(trace, "fifo", setup);
  EXPECT_EQ(gang.deadlocks, 0);
  EXPECT_EQ(gang.held_idle, 0);
  EXPECT_EQ(gang.makespan_s, 600);
  EXPECT_GT(mixed.makespan_s, gang.makespan_s);
}

TEST(SimEngine, a_deadlock_that_nobody_ends_leaves_jobs_unfinished) {
  // Two jobs of three learners, two places each.
  const Trace trace = trace_of("1,0,a,4,3,100,,,\n2,0,a,4,3,100,,,\n3,0,a,4,3,100,,,\n4,0,a,4,3,100,,,\n");
  Scenario setup = setup_of("g=4x4", 16, 0);
  setup.stuck_s = 0;
  bool stuck = false;
  for (uint64_t seed = 1; seed <= 20 && !stuck; ++seed) {
    setup.seed = seed;
    const Outcome outcome = replayed(trace, "no-gang-mixed", setup);
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
  const Scenario setup = setup_of("g=4x4", 16, 0);
  EXPECT_EQ(replayed(trace, "backfill", setup).queue.p99, 0);
  EXPECT_EQ(replayed(trace, "backfill-spread", setup).queue.p99, 99);
  EXPECT_GT(replayed(trace, "backfill-spread", setup).fragmentation, replayed(trace, "backfill", setup).fragmentation);
}

TEST(SimEngine, what_does_not_exist_is_named) {
  const Scenario setup = setup_of("g=1x4", 4, 0);
  const SimPolicy& fifo = *find_sim_policy("fifo");
  const auto tenant = replay(trace_of("1,0,zoe,1,1,9,,,\n"), fifo, setup);
  ASSERT_FALSE(tenant);
  EXPECT_EQ(tenant.error().text, "job 1: there is no tenant 'zoe'; allowed: those of the configuration");
  const auto type = replay(trace_of("1,0,a,h100:1,1,9,,,\n"), fifo, setup);
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
  const auto nodes = parse_nodes("a=2x8,b=1x4,a=1x2", 2);
  ASSERT_TRUE(nodes);
  EXPECT_EQ(nodes->types, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(gpus_in_all(*nodes), 22);
  EXPECT_EQ(nodes->nodes.size(), 4U);
  for (const char* bad : {"", "8", "a=8", "a=0x8", "a=8x0", "a=8x8,", "=8x8", "a b=8x8", "a=8x8x8", "a=100000x1,b=1x1"})
    EXPECT_FALSE(parse_nodes(bad, 2)) << bad;
}

}  // namespace
}  // namespace dl::sim
