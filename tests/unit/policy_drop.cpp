// SPDX-License-Identifier: Apache-2.0
// Admission `drop`: which waiting jobs are not admitted, by hand and in random clusters.
#include "slurm-plugin/policy/drop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "slurm-plugin/policy/job_id.h"
#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

constexpr int64_t kAfterS = 60;

// Of so many learners, submitted so long ago.
Job& add_elastic(ClusterState* state, int tenant, int least, int most, int64_t waited_s = 100) {
  Job& job = add_job(state, tenant, least);
  job.max_learners = most;
  job.submit_s = state->now_s - waited_s;
  return job;
}

std::vector<Drop> drops_of(const ClusterState& state, std::vector<char> begun = {}) {
  EXPECT_TRUE(check(state));
  begun.resize(state.jobs.size());
  return not_admitted(state, decide(state), begun, kAfterS);
}

std::vector<int> dropped(const ClusterState& state, std::vector<char> begun = {}) {
  std::vector<int> jobs;
  for (const Drop& drop : drops_of(state, std::move(begun))) jobs.push_back(drop.job);
  return jobs;
}

using Jobs = std::vector<int>;

// Tenant a owns all 8 GPUs and uses them; b owns none.
ClusterState full() {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 0, {{0, 4}, {1, 4}}, Charge::kOwn);
  return state;
}

TEST(PolicyDrop, ANewJobForWhichThereIsNoRoomIsDroppedAndSaysWhatItLacks) {
  ClusterState state = full();
  add_elastic(&state, 1, 2, 4);
  const std::vector<Drop> drops = drops_of(state);
  ASSERT_EQ(drops.size(), 1U);
  EXPECT_EQ(drops[0].job, 1);
  EXPECT_EQ(drops[0].gpus, 2);
  EXPECT_EQ(drops[0].room, 0);
}

TEST(PolicyDrop, AfterSomeTimeAndNotMuchLater) {
  const std::vector<std::pair<int64_t, bool>> cases = {{59, false}, {60, true}, {659, true}, {660, false}};
  for (const auto& [waited_s, expected] : cases) {
    ClusterState state = full();
    add_elastic(&state, 1, 2, 4, waited_s);
    EXPECT_EQ(!dropped(state).empty(), expected) << waited_s;
  }
}

TEST(PolicyDrop, RunningJobsThatCanShrinkCountWithTheirSmallestSizeAndTheOldestComesFirst) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  Job& runs = add_running(&state, 1, {{0, 4}, {1, 4}}, Charge::kBorrowed);
  runs.min_learners = 1;
  add_elastic(&state, 1, 6, 8, 100);  // does not fit beside the older one
  add_elastic(&state, 1, 2, 4, 200);
  add_elastic(&state, 1, 5, 6, 90);
  EXPECT_EQ(dropped(state), Jobs{1});  // 8 - 1 - 2 = 5
  state.jobs[0].pausable = false;      // then it does not shrink
  EXPECT_EQ(dropped(state), (Jobs{2, 1, 3}));
}

TEST(PolicyDrop, NobodyWithinItsQuotaAndNoGuaranteedOrFixedJob) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 4}, {1, 4}}, Charge::kBorrowed);
  add_elastic(&state, 0, 4, 6);  // takes back what b borrows
  add_elastic(&state, 0, 4, 6, 99);
  EXPECT_EQ(dropped(state), Jobs{});
  add_elastic(&state, 0, 1, 2, 98);  // beyond the quota
  EXPECT_EQ(dropped(state), Jobs{3});
  state.jobs[3].tier = Tier::kGuaranteed;
  EXPECT_EQ(dropped(state), Jobs{});
  state.jobs[3].tier = Tier::kBorrow;
  EXPECT_EQ(dropped(state), Jobs{3});
  state.jobs[3].max_learners = 1;
  EXPECT_EQ(dropped(state), Jobs{});
}

TEST(PolicyDrop, NobodyWhoHasBegunOrWasPromisedSomethingAndNoElementOfAnArray) {
  ClusterState state = full();
  Job& job = add_elastic(&state, 1, 2, 4);
  EXPECT_EQ(dropped(state), Jobs{1});
  EXPECT_EQ(dropped(state, {0, 1}), Jobs{});
  job.id = element_id(7, 3);
  EXPECT_EQ(dropped(state), Jobs{});
  job.id = 2;
  job.yields_to = 99;
  EXPECT_EQ(dropped(state), Jobs{});
  job.yields_to = kNobody;
  job.promised = true;
  job.charge = Charge::kBorrowed;
  EXPECT_EQ(dropped(state), Jobs{});
}

TEST(PolicyDrop, NobodyBecauseNodesAreDownOrOwnersDoNotLendOrPlacesAreNarrow) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_elastic(&state, 1, 2, 4);
  for (Node& node : state.nodes) node.usable = false;
  EXPECT_EQ(dropped(state), Jobs{});
  for (Node& node : state.nodes) node.usable = true;
  state.tenants[0].lend = GpuCounts{};
  EXPECT_EQ(dropped(state), Jobs{});
  state.tenants[0].lend.reset();
  state.tenants[1].borrow_limit = 1;
  EXPECT_EQ(dropped(state), Jobs{});
  state.tenants[1].borrow_limit = kNoLimit;
  add_running(&state, 0, {{0, 2}, {1, 2}}, Charge::kOwn);
  state.jobs[0].gpus_per_learner = 4;  // on no node are 4 free
  state.jobs[0].min_learners = 1;
  state.jobs[0].max_learners = 3;
  EXPECT_EQ(dropped(state), Jobs{});
  state.jobs[0].min_learners = 2;
  EXPECT_EQ(dropped(state), Jobs{0});
}

TEST(PolicyDrop, AJobOfAnyTypeFitsWhereThereIsMostRoom) {
  ClusterState state = full();
  state.types.push_back("h100");
  Node node;
  node.name = "h";
  node.type = 1;
  node.gpus = 3;
  state.nodes.push_back(node);
  add_running(&state, 0, {{2, 3}}, Charge::kOwn).type = 1;
  state.tenants[0].quota.by_type = {8, 3};
  state.jobs[1].min_learners = 1;
  add_elastic(&state, 1, 2, 4).type = kAnyType;
  EXPECT_EQ(dropped(state), Jobs{});
  add_elastic(&state, 1, 1, 4, 99).type = kAnyType;
  const std::vector<Drop> drops = drops_of(state);
  ASSERT_EQ(drops.size(), 1U);
  EXPECT_EQ(drops[0].job, 3);
  EXPECT_EQ(drops[0].room, 0);
}

// What the running jobs of a type need at least, and what all others that wait would.
int64_t taken(const ClusterState& state, int type, const std::set<int>& without) {
  int64_t gpus = 0;
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    const Job& job = state.jobs[i];
    if (without.count(static_cast<int>(i)) != 0) continue;
    if (job.running && state.type_held(job) == type)
      gpus +=
          job.elastic() && job.pausable ? std::min(job.min_learners * job.gpus_per_learner, job.gpus()) : job.gpus();
    if (!job.running && (job.type == type || job.type == kAnyType)) gpus += job.min_learners * job.gpus_per_learner;
  }
  return gpus;
}

void expect_sound(const ClusterState& state, const Decision& decision, const std::vector<char>& begun,
                  const std::vector<Drop>& drops) {
  std::set<int> gone, starts;
  for (const Drop& drop : drops) gone.insert(drop.job);
  for (const Start& start : decision.starts) starts.insert(start.job);
  ClusterState after = state;
  for (const Move& move : decision.moves) carry_out(move, &after.jobs[move.job]);
  const Ledger ledger(after);
  for (const Drop& drop : drops) {
    const Job& job = state.jobs[drop.job];
    ASSERT_TRUE(!job.running && job.elastic() && !job.promised && job.yields_to == kNobody);
    ASSERT_TRUE(begun[drop.job] == 0 && starts.count(drop.job) == 0 && job.tier != Tier::kGuaranteed);
    ASSERT_TRUE(state.now_s - job.submit_s >= kAfterS && state.now_s - job.submit_s < kAfterS + kDropWithinS);
    ASSERT_EQ(drop.gpus, job.min_learners * job.gpus_per_learner);
    ASSERT_LT(drop.room, drop.gpus);
    const bool alone = std::count_if(state.jobs.begin(), state.jobs.end(), [&](const Job& other) {
                         return !other.running && other.tenant == job.tenant;
                       }) == 1;
    for (int type = 0; type < state.type_count(); ++type) {
      if (job.type != kAnyType && job.type != type) continue;
      const bool within = ledger.fits_own(job.tenant, type, drop.gpus);
      ASSERT_FALSE(alone && job.tier != Tier::kBorrow && within);
      int64_t capacity = 0;
      for (const Node& node : state.nodes) capacity += node.type == type ? node.gpus : 0;
      ASSERT_GT(drop.gpus + taken(state, type, gone), capacity);
    }
  }
}

TEST(PolicyDropRandom, OnlyThoseForWhomThereIsNoRoomEvenAtTheSmallestSizesOfAll) {
  Dice dice(41);
  int all = 0;
  for (int round = 0; round < 100'000; ++round) {
    ClusterState state = random_state(&dice);
    std::vector<char> begun;
    for (Job& job : state.jobs) {
      if (dice.one_in(2)) job.max_learners += dice.from(1, 6);
      if (dice.one_in(2)) job.submit_s = state.now_s - dice.from(0, 900);
      if (job.running && dice.one_in(3)) job.min_learners = 1;
      begun.push_back(!job.running && dice.one_in(6) ? 1 : 0);
    }
    const Decision decision = decide(state);
    const std::vector<Drop> drops = not_admitted(state, decision, begun, kAfterS);
    all += static_cast<int>(drops.size());
    expect_sound(state, decision, begun, drops);
    if (::testing::Test::HasFatalFailure()) FAIL() << "round " << round;
    // Where none that waits can vary nobody is dropped.
    for (Job& job : state.jobs)
      if (!job.running) job.max_learners = job.min_learners;
    ASSERT_TRUE(not_admitted(state, decide(state), begun, kAfterS).empty()) << round;
  }
  EXPECT_GT(all, 10'000);
}

}  // namespace
}  // namespace dl::policy::testing
