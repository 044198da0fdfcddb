// SPDX-License-Identifier: Apache-2.0
// Real and simulated waits side by side, calibration, how sure means are, failures of nodes, and the sweep over loads.
#include <gtest/gtest.h>

#include <cmath>

#include "slurm-plugin/sim/compare/compare.h"
#include "slurm-plugin/sim/generate.h"
#include "slurm-plugin/sim/sweep/load_sweep.h"
#include "tests/unit/sim_support.h"

namespace dl::sim {
namespace {

using testing::replayed;
using testing::scenario_of;
using testing::trace_of;

// A month on 64 GPUs, busy enough that jobs wait.
struct Month {
  Trace trace;
  Scenario scenario;

  explicit Month(double load = 0.8, const char* nodes = "g=8x8") {
    scenario.cluster = testing::cluster_of(nodes);
    Shape shape;
    shape.days = 30;
    shape.load = load;
    trace = generate(shape, scenario.cluster);
    add_tenants(trace.tenants(), &scenario.cluster);
  }
};

Outcome replayed_with(const Month& month, const char* policy, const Fitted& fitted) {
  Scenario scenario = month.scenario;
  set_unavailable(fitted.unavailable, &scenario.cluster);
  scenario.interval_s = fitted.interval_s;
  return replayed(month.trace, policy, scenario);
}

// What a cluster would have told whose scheduler looks every two minutes, with a fifth of the nodes down.
TEST(SimCompare, calibration_finds_what_made_the_waits_and_says_what_it_does_in_the_half_it_never_saw) {
  Month month(0.6, "g=20x4");
  Fitted truth;
  truth.unavailable = 0.2;
  truth.interval_s = 120;
  const Outcome real = replayed_with(month, "backfill", truth);
  for (size_t i = 0; i < month.trace.jobs.size(); ++i)
    month.trace.jobs[i].waited_s = static_cast<int64_t>(real.waits[i]);
  const auto found = calibrate(month.trace, *find_sim_policy("backfill"), Fitted(), [&](const Fitted& fitted) {
    return Result<Outcome>(replayed_with(month, "backfill", fitted));
  });
  ASSERT_TRUE(found);
  EXPECT_EQ(options_of(*found, Fitted()), "--unavailable 0.2 --interval 2m");
  EXPECT_GT(found->first_before, 1.2);
  EXPECT_NEAR(found->first_after, 1, 1e-9);
  EXPECT_NEAR(found->second_after, 1, 1e-9);
  EXPECT_GT(found->second_before, found->second_after);
  EXPECT_LE(found->replays, 30);
}

TEST(SimCompare, a_factor_of_two_is_two_and_sizes_are_told_apart) {
  EXPECT_EQ(factor_between({{}, {}}), 1);
  EXPECT_NEAR(factor_between({{540, 3540}, {7140, 1140}}), 2, 1e-9);  // in whatever order
  Trace trace = trace_of("1,0,a,1,1,100,,,\n2,0,a,4,1,100,,,\n3,9,a,4,2,100,,,\n");
  for (TraceJob& job : trace.jobs) job.waited_s = 10 * job.id;
  trace.jobs[2].waited_s = -1;
  const Outcome outcome = replayed(trace, "fifo", scenario_of("g=2x4", 8, 0));
  const WaitPairs all = wait_pairs(trace, outcome, kAll);
  EXPECT_EQ(all.real, (std::vector<double>{10, 20}));
  EXPECT_EQ(all.simulated, (std::vector<double>{0, 0}));
  EXPECT_EQ(wait_pairs(trace, outcome, kAll, size_class(4)).real, (std::vector<double>{20}));
  EXPECT_EQ(wait_pairs(trace, outcome, kSecondHalf).real, std::vector<double>());
  const std::string text = compare_text(trace, {outcome}, true);
  EXPECT_NE(text.find("3-4   real"), std::string::npos) << text;
  EXPECT_NE(compare_svg(trace, {outcome}, "a <b>").find("a &lt;b&gt;"), std::string::npos);
}

TEST(SimSizes, waits_are_counted_by_the_gpus_that_jobs_ask_for) {
  const Trace trace = trace_of("1,0,a,4,1,2000,,,\n2,0,a,1,1,100,,,\n3,0,a,2,1:2,100,,,\n4,1,a,1,1,100,,,\n");
  const Outcome outcome = replayed(trace, "fifo", scenario_of("g=1x4", 4, 0));
  ASSERT_EQ(outcome.sizes.size(), 2U);
  EXPECT_EQ(outcome.sizes[0].name, "1");
  EXPECT_EQ(outcome.sizes[0].jobs, 2);
  EXPECT_EQ(outcome.sizes[0].waited_15m, 2);
  EXPECT_EQ(outcome.sizes[1].name, "3-4");
  EXPECT_EQ(outcome.sizes[1].jobs, 2);
  EXPECT_EQ(outcome.sizes[1].queue.count, 2);
  EXPECT_EQ(outcome.waits[0], 0);
  EXPECT_EQ(outcome.waits[1], 2000);
}

TEST(SimFailures, a_job_loses_what_it_has_not_saved_and_goes_back_into_the_queue) {
  // The only node fails again and again: an hour on average, and an hour until it is back.
  Scenario scenario = scenario_of("g=1x4", 4, 0);
  scenario.mtbf_s = 3600;
  scenario.repair_s = 3600;
  const Trace saves = trace_of("1,0,a,4,1,36000,60,30,\n");
  const Trace never = trace_of("1,0,a,4,1,7200,,30,\n");
  for (const char* policy : {"lend", "fifo", "no-gang"}) {
    const Outcome saved = replayed(saves, policy, scenario);
    EXPECT_EQ(saved.completed, 1) << policy;
    EXPECT_GT(saved.failed, 3) << policy;
    EXPECT_EQ(saved.failed, saved.most_pauses) << policy;
    EXPECT_GE(saved.node_failures, saved.failed) << policy;
    // At most a minute, and half a minute of restart, for each failure.
    EXPECT_LE(saved.lost_gpu_h, 4 * 90.0 * static_cast<double>(saved.failed) / 3600 + 1e-9) << policy;
    EXPECT_GE(saved.makespan_s, 36000 + 3600 * static_cast<double>(saved.failed)) << policy;
    const Outcome lost = replayed(never, policy, scenario);
    EXPECT_EQ(lost.completed, 1) << policy;
    EXPECT_GE(lost.lost_gpu_h, lost.failed > 0 ? 1e-6 : 0) << policy;
  }
  Scenario same = scenario;
  EXPECT_EQ(replayed(saves, "lend", same).makespan_s, replayed(saves, "lend", scenario).makespan_s);
  same.seed = 2;
  EXPECT_NE(replayed(saves, "lend", same).makespan_s, replayed(saves, "lend", scenario).makespan_s);
}

TEST(SimFailures, promises_hold_and_replays_end_while_nodes_come_and_go) {
  const Month month(0.9);
  Scenario scenario = month.scenario;
  scenario.mtbf_s = 5 * 86400;
  scenario.repair_s = 2 * 86400;
  Hooks hooks;
  hooks.watch = [&](const policy::ClusterState&, const Turn&, const policy::ClusterState& after) {
    const Status status = policy::check(after);
    ASSERT_TRUE(status) << status.error().text;
    for (const policy::Job& job : after.jobs)
      for (const policy::Part& part : job.parts) ASSERT_TRUE(after.nodes[part.node].usable) << job.id;
  };
  for (const char* policy : {"lend", "backfill", "static"}) {
    const Outcome outcome = replayed(month.trace, policy, scenario, hooks);
    if (HasFatalFailure()) FAIL() << policy;
    EXPECT_GT(outcome.node_failures, 20) << policy;
    EXPECT_EQ(outcome.completed + outcome.refused, outcome.jobs) << policy;
  }
  // A job that nothing can ever start does not keep nodes failing for ever.
  Scenario half = month.scenario;
  set_unavailable(0.9, &half.cluster);
  half.mtbf_s = 3600;
  const Outcome stuck = replayed(trace_of("1,0,t1,8,8,100,,,\n"), "fifo", half);
  EXPECT_EQ(stuck.unfinished, 1);
}

TEST(SimInterval, decisions_wait_for_the_schedulers_next_look) {
  Scenario scenario = scenario_of("g=1x4", 4, 0);
  scenario.interval_s = 60;
  const Outcome outcome = replayed(trace_of("1,1,a,4,1,100,,,\n2,2,a,4,1,100,,,\n"), "fifo", scenario);
  EXPECT_EQ(outcome.waits, (std::vector<double>{59, 178}));  // at 60, and at 180 after the first has ended at 160
}

TEST(SimConfidence, the_interval_holds_the_mean_and_narrows_with_the_level_and_no_policy_differs_from_itself) {
  const Month month;
  const Outcome pack = replayed(month.trace, "backfill", month.scenario);
  const Outcome fifo = replayed(month.trace, "fifo", month.scenario);
  const auto wide = confidence_of(month.trace, {{&pack}, {&pack}, {&fifo}}, 0.99);
  const auto narrow = confidence_of(month.trace, {{&pack}, {&pack}, {&fifo}}, 0.5);
  for (const Confidence& it : wide) {
    ASSERT_TRUE(it.known);
    EXPECT_LE(it.wait_s.low, it.wait_s.mean);
    EXPECT_GE(it.wait_s.high, it.wait_s.mean);
  }
  EXPECT_NEAR(wide[0].wait_s.mean, pack.queue.mean, 1e-6 * pack.queue.mean + 1e-9);
  EXPECT_NEAR(wide[0].jct_s.mean, pack.jct.mean, 1e-6 * pack.jct.mean);
  EXPECT_LT(narrow[0].wait_s.high - narrow[0].wait_s.low, wide[0].wait_s.high - wide[0].wait_s.low);
  EXPECT_EQ(wide[1].wait_less_first.low, 0);
  EXPECT_EQ(wide[1].wait_less_first.high, 0);
  EXPECT_GT(wide[2].wait_less_first.low, 0);  // fifo waits longer, beyond doubt
  // All at once: no pieces of time.
  const Trace once = trace_of("1,0,a,4,1,100,,,\n2,0,a,4,1,100,,,\n");
  const Outcome outcome = replayed(once, "fifo", scenario_of("g=1x4", 4, 0));
  EXPECT_FALSE(confidence_of(once, {{&outcome}}, 0.95)[0].known);
  const Interval few = interval_of_means({1, 2, 3, 4}, 0.9);
  EXPECT_EQ(few.mean, 2.5);
  EXPECT_LT(few.low, 2);
  EXPECT_GT(few.high, 3);
}

// What FfDL published of pack: fewer jobs wait long. It is so where there is room to place jobs in, and not where the
// queue is long whatever the placement.
TEST(SimSweep, pack_lets_far_fewer_jobs_wait_long_at_half_load_on_small_nodes_and_not_at_high_load) {
  const auto ratio = [](double load, const char* nodes) {
    LoadRow pack;
    LoadRow spread;
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      Scenario scenario;
      scenario.cluster = testing::cluster_of(nodes);
      Shape shape;
      shape.seed = seed;
      shape.days = 30;
      shape.load = load;
      const Trace trace = generate(shape, scenario.cluster);
      add_tenants(trace.tenants(), &scenario.cluster);
      pack.long_waits.mean += static_cast<double>(replayed(trace, "backfill", scenario).waited_15m);
      spread.long_waits.mean += static_cast<double>(replayed(trace, "backfill-spread", scenario).waited_15m);
    }
    return times_as_many(pack, spread);
  };
  for (const double load : {0.6, 0.65}) EXPECT_GT(ratio(load, "g=100x4"), 3) << load;
  const double half = ratio(0.5, "g=100x4");
  EXPECT_TRUE(half == 0 || half > 3) << half;  // 0: none waits long under pack, and some do under spread
  EXPECT_LT(ratio(0.9, "g=50x8"), 1.2);
}

TEST(SimSweep, rows_come_out_as_table_json_and_picture) {
  std::vector<LoadRow> rows;
  for (const double load : {0.5, 0.7}) {
    rows.push_back(LoadRow{"g=100x4", load, "backfill", 100, {0.01, 0.005, 0.02}, {60, 30, 90}, 0.5});
    rows.push_back(LoadRow{"g=100x4", load, "backfill-spread", 100, {0.05, 0.04, 0.06}, {90, 60, 120}, 0.5});
  }
  rows[0].long_waits = {};
  const std::string text = load_table(rows, 0.95);
  EXPECT_NE(text.find("none : some"), std::string::npos) << text;
  EXPECT_NE(text.find("5.0x"), std::string::npos) << text;
  EXPECT_NE(load_json(rows, 0.95).find("\"times_the_first\": 5"), std::string::npos) << load_json(rows, 0.95);
  const std::string picture = load_svg(rows, "title");
  EXPECT_NE(picture.find("nodes of 4 GPUs (g=100x4)"), std::string::npos);
  EXPECT_EQ(picture.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace dl::sim
