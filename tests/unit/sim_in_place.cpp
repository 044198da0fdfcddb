// SPDX-License-Identifier: Apache-2.0
// lend-in-place: running jobs grow onto whole free nodes, give them back when their owner wants them, and lose no more
// than the time of a restart by either.
#include <gtest/gtest.h>

#include "slurm-plugin/sim/generate.h"
#include "tests/unit/sim_support.h"

namespace dl::sim {
namespace {

using testing::replayed;
using testing::scenario_of;
using testing::trace_of;

// Four nodes of two GPUs: one is a's, three are b's. Job 1 of a fills its node from 0; job 2 of b has the others until
// 2000.
constexpr const char* kGrows =
    "1,0,a,1,2:8,3600,600,30,auto\n"
    "2,0,b,1,6,2000,600,30,auto\n";
Scenario four_nodes() {
  return scenario_of("a100=4x2", 2, 6);
}

TEST(SimInPlace, AJobTrainsOnUntilItsCompanionsAgentsHaveComeAndPaysForTheRestartAlone) {
  Scenario scenario = four_nodes();
  scenario.join_s = 20;
  scenario.requeue_s = 100;
  const Trace trace = trace_of(kGrows);
  const Outcome in_place = replayed(trace, "lend-in-place", scenario);
  EXPECT_EQ(in_place.grown, 1);
  EXPECT_EQ(in_place.resizes, 0);
  EXPECT_EQ(in_place.given_back, 0);
  // 28,800 learner-seconds: 2 learners for 2020 s, then 8, after 30 s.
  EXPECT_EQ(in_place.jcts[0], 2020 + 30 + (28800 - 2 * 2020) / 8);
  // Six GPUs for 20 s, and eight for 30 s.
  EXPECT_NEAR(in_place.lost_gpu_h, (6 * 20 + 8 * 30) / 3600.0, 1e-9);
  const Outcome queue = replayed(trace, "lend-sizes", scenario);
  EXPECT_EQ(queue.resizes, 1);
  EXPECT_EQ(queue.grown, 0);
  EXPECT_EQ(queue.jcts[0], 2000 + 100 + 30 + (28800 - 2 * 2000) / 8);
}

// b wants its six GPUs again at 3000. In place the job gives them back after a save; where it had grown through the
// queue, it goes back to its last checkpoint.
TEST(SimInPlace, TheOwnerGetsItsNodesBackAndTheJobLosesNoWork) {
  Scenario scenario = four_nodes();
  scenario.requeue_s = 0;
  scenario.join_s = 0;
  const Trace trace = trace_of(std::string(kGrows) + "3,3000,b,1,6,50000,600,30,auto\n");
  const Outcome in_place = replayed(trace, "lend-in-place", scenario);
  EXPECT_EQ(in_place.grown, 1);
  EXPECT_EQ(in_place.given_back, 1);
  EXPECT_EQ(in_place.shrinks + in_place.stops, 0);
  EXPECT_EQ(in_place.waits[2], scenario.yield_s);
  // 2 learners for 2000 s, 8 from 2030 to 3010, 2 from 3040.
  EXPECT_EQ(in_place.jcts[0], 3040 + (28800 - 2 * 2000 - 8 * 980) / 2);
  const Outcome queue = replayed(trace, "lend-sizes", scenario);
  EXPECT_EQ(queue.given_back, 0);
  EXPECT_EQ(queue.shrinks + queue.stops, 1);
  EXPECT_GT(queue.jcts[0], in_place.jcts[0]);
  EXPECT_GT(queue.lost_gpu_h, in_place.lost_gpu_h);
}

// Two of b's nodes come free at 2000, the third at 4000: the job grows twice. b claims one node at 6000, and gets one
// companion.
TEST(SimInPlace, AJobGrowsAgainAndGivesBackOnlyWhatIsClaimed) {
  Scenario scenario = four_nodes();
  scenario.join_s = 0;
  const Outcome outcome = replayed(trace_of("1,0,a,1,2:8,9000,600,30,auto\n"
                                            "2,0,b,1,4,2000,600,30,auto\n"
                                            "3,0,b,1,2,4000,600,30,auto\n"
                                            "4,6000,b,1,2,50000,600,30,auto\n"),
                                   "lend-in-place", scenario);
  EXPECT_EQ(outcome.grown, 2);
  EXPECT_EQ(outcome.given_back, 1);
  EXPECT_EQ(outcome.shrinks + outcome.stops + outcome.resizes, 0);
  // 2 learners for 2000 s, 6 from 2030 to 4000, 8 from 4030 to 6010, 6 from 6040.
  EXPECT_EQ(outcome.jcts[0], 6040 + (72000 - 2 * 2000 - 6 * 1970 - 8 * 1980 + 5) / 6);
}

TEST(SimInPlace, ACompanionThatIsTakenBackBeforeItCouldBeUsedCostsItsJobNothing) {
  Scenario scenario = four_nodes();
  scenario.join_s = 600;
  const Outcome outcome =
      replayed(trace_of(std::string(kGrows) + "3,2100,b,1,6,50000,600,30,auto\n"), "lend-in-place", scenario);
  EXPECT_EQ(outcome.grown, 1);
  EXPECT_EQ(outcome.given_back, 1);
  EXPECT_EQ(outcome.jcts[0], 14400);
}

TEST(SimInPlace, ALostNodeEndsTheCompanionAndTheJobGoesOnFromItsLastCheckpoint) {
  Scenario scenario = four_nodes();
  scenario.mtbf_s = 4000;
  scenario.repair_s = 300;
  int64_t grown = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    scenario.seed = seed;
    Hooks hooks;
    hooks.watch = [&](const policy::ClusterState&, const Turn&, const policy::ClusterState& after) {
      ASSERT_TRUE(policy::check(after));
    };
    const Outcome outcome = replayed(trace_of(kGrows), "lend-in-place", scenario, hooks);
    EXPECT_EQ(outcome.completed, 2) << seed;
    grown += outcome.grown;
  }
  EXPECT_GT(grown, 20);
}

TEST(SimInPlace, WhereNoJobCanVaryItIsLendToTheLastSecond) {
  Shape shape;
  shape.days = 3;
  Scenario scenario = scenario_of("a100=6x8", 24, 24);
  scenario.cluster.tenants.clear();
  Trace trace = generate(shape, scenario.cluster);
  for (TraceJob& job : trace.jobs) job.min_learners = job.max_learners;
  add_tenants(trace.tenants(), &scenario.cluster);
  const Outcome lend = replayed(trace, "lend", scenario);
  const Outcome in_place = replayed(trace, "lend-in-place", scenario);
  EXPECT_EQ(in_place.grown, 0);
  EXPECT_EQ(in_place.jcts, lend.jcts);
  EXPECT_EQ(in_place.decisions, lend.decisions);
}

TEST(SimInPlace, SixtyWorldsStayWithinLimitsAndAllJobsEnd) {
  int64_t grown = 0, given_back = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Shape shape;
    shape.seed = seed;
    shape.days = 0.5;
    shape.load = 0.2 + 0.02 * static_cast<double>(seed);
    Scenario scenario = scenario_of("a100=8x2", 8, 8);
    scenario.cluster.tenants.clear();
    scenario.mtbf_s = seed % 4 == 0 ? 400'000 : 0;
    Trace trace = generate(shape, scenario.cluster);
    for (TraceJob& job : trace.jobs) {
      if (job.id % 2 != 0) continue;
      job.gpus = 1;
      job.min_learners = 2;
      job.max_learners = 2 + 2 * static_cast<int>(job.id % 4);
    }
    add_tenants(trace.tenants(), &scenario.cluster);
    Hooks hooks;
    hooks.watch = [&](const policy::ClusterState& before, const Turn& turn, const policy::ClusterState& after) {
      const Status sound = policy::check(after);
      ASSERT_TRUE(sound) << seed << ": " << sound.error().text;
      for (const policy::Growth& growth : turn.growths) {
        const policy::Job& job = before.jobs[growth.job];
        ASSERT_LE(growth.before + growth.learners, job.max_learners) << seed;
        ASSERT_GE(before.now_s - job.start_s, policy::kResizeEachS) << seed;
      }
    };
    const Outcome outcome = replayed(trace, "lend-in-place", scenario, hooks);
    EXPECT_EQ(outcome.unfinished, 0) << seed;
    grown += outcome.grown;
    given_back += outcome.given_back;
  }
  EXPECT_GT(grown, 50);
  EXPECT_GT(given_back, 5);
}

}  // namespace
}  // namespace dl::sim
