// SPDX-License-Identifier: Apache-2.0
// lend-sizes: running jobs are resized, a resize costs a restart, and where MIN = MAX it is lend.
#include <gtest/gtest.h>

#include <algorithm>

#include "slurm-plugin/policy/sizes/steady.h"
#include "slurm-plugin/sim/generate.h"
#include "tests/unit/sim_support.h"

namespace dl::sim {
namespace {

using testing::replayed;
using testing::scenario_of;
using testing::trace_of;

TEST(SimSizes, AJobGrowsWhenOthersHaveEndedAndPaysForTheRestart) {
  const Trace trace = trace_of(
      "1,0,a,1,1:8,3600,600,30,auto\n"
      "2,0,b,1,4,2000,600,30,auto\n");
  const Scenario scenario = scenario_of("a100=1x8", 4, 4);
  const Outcome lend = replayed(trace, "lend", scenario);
  const Outcome sizes = replayed(trace, "lend-sizes", scenario);
  EXPECT_EQ(lend.resizes, 0);
  EXPECT_EQ(sizes.resizes, 1);
  // 28,800 learner-seconds: 4 learners for 2000 s, then 8 for the rest, after 30 s of a restart and 3 s in the queue.
  EXPECT_EQ(sizes.jcts[0], 2000 + 33 + (28800 - 8000) / 8);
  EXPECT_EQ(lend.jcts[0], 7200);
}

TEST(SimSizes, ASerialPartMakesManyLearnersWorthLess) {
  auto trace = parse_trace("id,submit,tenant,gpus,learners,run,serial\n1,0,a,1,1:4,1000,0.5\n", "trace");
  ASSERT_TRUE(trace) << trace.error().text;
  const Scenario few = scenario_of("a100=1x1", 1, 0);
  // 4 learners are worth 4 / 2.5 = 1.6: one alone needs 1.6 times as long.
  EXPECT_EQ(replayed(*trace, "lend", few).jcts[0], 1600);
  EXPECT_FALSE(parse_trace("id,submit,tenant,gpus,run,serial\n1,0,a,1,10,1.5\n", "trace"));
  EXPECT_FALSE(parse_trace("id,submit,tenant,gpus,run,serial\n1,0,a,1,10,nan\n", "trace"));
}

// With a speed for each of their sizes each decision would go through 5,000,000 of them.
TEST(SimSizes, JobsWithVeryManySizesTakeNoLonger) {
  std::string text;
  for (int i = 1; i <= 50; ++i) text += std::to_string(i) + ",0,a,1,1:100000,10,600,30,auto\n";
  EXPECT_EQ(replayed(trace_of(text), "lend-sizes", scenario_of("a100=1x8", 4, 4)).completed, 50);
}

TEST(SimSizes, WhereNoJobCanVaryItIsLendToTheLastSecond) {
  Shape shape;
  shape.days = 3;
  Scenario scenario = scenario_of("a100=6x8", 24, 24);
  scenario.cluster.tenants.clear();
  Trace trace = generate(shape, scenario.cluster);
  for (TraceJob& job : trace.jobs) job.min_learners = job.max_learners;
  add_tenants(trace.tenants(), &scenario.cluster);
  const Outcome lend = replayed(trace, "lend", scenario);
  const Outcome sizes = replayed(trace, "lend-sizes", scenario);
  EXPECT_GT(lend.completed, 100);
  EXPECT_EQ(sizes.resizes, 0);
  EXPECT_EQ(sizes.jcts, lend.jcts);
  EXPECT_EQ(sizes.waits, lend.waits);
  EXPECT_EQ(sizes.decisions, lend.decisions);
}

TEST(SimSizes, SixtyWorldsStayWithinLimitsAndEachJobIsResizedSeldom) {
  int64_t resizes = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Shape shape;
    shape.seed = seed;
    shape.days = 0.5;
    shape.load = 0.4 + 0.02 * static_cast<double>(seed);
    shape.serial = seed % 3 == 0 ? 0 : 0.02 * static_cast<double>(seed % 7);
    Scenario scenario = scenario_of("a100=4x8", 16, 16);
    scenario.cluster.tenants.clear();
    Trace trace = generate(shape, scenario.cluster);
    for (TraceJob& job : trace.jobs)
      if (job.max_learners > 1 && job.id % 2 == 0) job.min_learners = 1;
    add_tenants(trace.tenants(), &scenario.cluster);
    int64_t rounds = 0;
    Hooks hooks;
    hooks.watch = [&](const policy::ClusterState& before, const Turn& turn, const policy::ClusterState& after) {
      ++rounds;
      const Status sound = policy::check(after);
      ASSERT_TRUE(sound) << seed << ": " << sound.error().text;
      for (const policy::Resize& resize : turn.resizes) {
        const policy::Job& job = before.jobs[resize.job];
        ASSERT_TRUE(job.running);
        ASSERT_GE(before.now_s - job.start_s, policy::kResizeEachS);
      }
    };
    const Outcome outcome = replayed(trace, "lend-sizes", scenario, hooks);
    EXPECT_EQ(outcome.unfinished, 0) << seed;
    resizes += outcome.resizes;
    // A job can be resized once in five minutes; that all are, all the time, would be no rest.
    EXPECT_LE(outcome.resizes, 4 * outcome.jobs) << seed;
    EXPECT_GT(rounds, 0);
  }
  EXPECT_GT(resizes, 5);
}

}  // namespace
}  // namespace dl::sim
