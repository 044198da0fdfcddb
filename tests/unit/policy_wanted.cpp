// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/wanted.h"

#include <gtest/gtest.h>

#include "policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::cluster;

// A cluster of four nodes of two GPUs, a waiting job, and a decision that starts it on `parts`.
struct AStart {
  AStart(int learners, std::vector<Part> parts) : state(cluster(4, 2)) {
    add_tenant(&state, "vision", 8);
    add_job(&state, 0, learners);
    decision.starts.push_back({0, Charge::kOwn, 0, std::move(parts), 0});
    wanted.start = 0;
    wanted.turn = true;
  }
  Job& job() { return state.jobs[0]; }
  std::optional<NodeCount> nodes(NodeRange range, int node_gpus = 2, int chosen = 0) {
    return node_count(decision, job(), wanted, range, node_gpus, chosen);
  }
  ClusterState state;
  Decision decision;
  Wanted wanted;
};

TEST(NodeCountTest, AJobGetsTheNodesOfTheDecisionAndNoneBeyondItsRange) {
  AStart packed(3, {{0, 2}, {1, 1}});
  EXPECT_EQ(packed.nodes({1, 4})->most, 2);
  EXPECT_EQ(packed.nodes({1, 4})->least, 0) << "fewer will do";
  EXPECT_EQ(packed.nodes({3, 4})->most, 3);
  EXPECT_FALSE(packed.nodes({2, 2})) << "there is nothing to choose";
  packed.job().placement = Placement::kSpread;
  EXPECT_TRUE(packed.nodes({1, 4})->exact());
}

TEST(NodeCountTest, AnElasticJobGetsJustAsManyNodesAsItsLearnersFill) {
  AStart elastic(4, {{0, 2}, {1, 1}, {2, 1}});
  elastic.job().min_learners = 1;
  EXPECT_EQ(elastic.nodes({1, 4}, 2)->most, 2);
  EXPECT_TRUE(elastic.nodes({1, 4}, 2)->exact()) << "Slurm would take one, the fewest";
  EXPECT_EQ(elastic.nodes({1, 8}, 1)->most, 4);
  elastic.job().gpus_per_learner = 4;
  EXPECT_FALSE(elastic.nodes({1, 4}, 2)) << "a node holds no learner";
}

// Slurm takes as many nodes of a range as are free, until the range was changed.
TEST(NodeCountTest, AnElasticJobThatMayHaveAllNodesOfItsRangeIsLeftAloneUntilThatWasChanged) {
  AStart elastic(4, {{0, 2}, {1, 2}});
  elastic.job().min_learners = 1;
  EXPECT_FALSE(elastic.nodes({1, 2}));
  const auto after = elastic.nodes({1, 2, NodeRange::Now::kOther});
  ASSERT_TRUE(after);
  EXPECT_TRUE(after->exact());
  EXPECT_EQ(after->most, 2);
}

TEST(NodeCountTest, AnElasticClaimThatWaitsKeepsItsRangeOrGetsTheFewest) {
  AStart waits(4, {});
  waits.job().min_learners = 2;
  waits.wanted.turn = false;
  for (const bool claim : {false, true}) {
    waits.wanted.waits_for_victims = claim;
    EXPECT_FALSE(waits.nodes({1, 2})) << "it stays as it is";
    EXPECT_EQ(waits.nodes({1, 2, NodeRange::Now::kOther}).has_value(), claim) << "it was cut at submission";
    const auto again = waits.nodes({1, 2, NodeRange::Now::kSet});
    ASSERT_TRUE(again) << "it was its turn, or is not the only claim any more";
    EXPECT_EQ(again->least, 1);
    EXPECT_EQ(again->most, 2);
  }
  waits.wanted.smallest = true;
  EXPECT_EQ(waits.nodes({1, 2})->most, 1);
  EXPECT_EQ(waits.nodes({1, 2})->least, 1);
}

TEST(NodeCountTest, AJobThatWaitsGetsNoMoreThanTheSizeThatWasChosenNeeds) {
  AStart waits(8, {});
  waits.job().min_learners = 2;
  waits.wanted.turn = false;
  EXPECT_EQ(waits.nodes({1, 4}, 2, 6)->most, 3);
  EXPECT_EQ(waits.nodes({1, 4}, 2, 6)->least, 1);
  EXPECT_EQ(waits.nodes({2, 4}, 2, 2)->most, 2) << "within its own range";
  EXPECT_EQ(waits.nodes({1, 2, NodeRange::Now::kSet}, 2, 8)->most, 2);
  EXPECT_FALSE(waits.nodes({1, 4}, 2)) << "no size was chosen";
  EXPECT_FALSE(waits.nodes({1, 4}, 0, 6)) << "a node holds no learner";
  EXPECT_FALSE(waits.nodes({3, 3}, 2, 6)) << "there is nothing to choose";
  waits.wanted.waits_for_victims = true;
  EXPECT_EQ(waits.nodes({1, 4, NodeRange::Now::kOther}, 2, 2)->most, 4) << "a claim keeps its range";
  AStart turn(8, {{0, 2}, {1, 2}});
  turn.job().min_learners = 2;
  EXPECT_EQ(turn.nodes({1, 4}, 2, 8)->most, 2) << "the decision's own";
}

// A running job on four GPUs, as it is charged and as it is to be.
struct Holder {
  Job job;
  Wanted wants;
};
Holder holder(int64_t start_s, Charge now, int own_now, Charge then, int own_then) {
  Holder its;
  its.job.id = 1;
  its.job.start_s = start_s;
  its.job.running = true;
  its.job.parts = {{0, 4}};
  its.job.gpus_per_learner = 1;
  its.job.charge = now;
  its.job.own_part = own_now;
  its.wants.charge = then;
  its.wants.own_part = own_then;
  return its;
}

TEST(HoldsBeforeTest, WhatIsGivenBackComesFirstAndWhatIsLeftGoesToJobsThatAreOwnInPart) {
  const std::vector<Holder> in_order = {
      holder(10, Charge::kBorrowed, 0, Charge::kBorrowed, 0),  // it has no tokens of its own
      holder(20, Charge::kBorrowed, 3, Charge::kBorrowed, 1),  // gives two back
      holder(30, Charge::kOwn, 0, Charge::kBorrowed, 3),       // gives one back
      holder(5, Charge::kOwn, 0, Charge::kOwn, 0),
      holder(15, Charge::kBorrowed, 2, Charge::kOwn, 0),
      holder(1, Charge::kBorrowed, 2, Charge::kBorrowed, 2),
      holder(2, Charge::kBorrowed, 2, Charge::kBorrowed, 3),
  };
  for (size_t i = 0; i < in_order.size(); ++i)
    for (size_t k = 0; k < in_order.size(); ++k)
      EXPECT_EQ(holds_before(in_order[i].job, in_order[i].wants, in_order[k].job, in_order[k].wants), i < k)
          << i << " before " << k;
  Holder other = in_order.back();
  other.job.id = 2;
  EXPECT_TRUE(holds_before(in_order.back().job, other.wants, other.job, other.wants)) << "of one age: by the id";
}

TEST(MostLearnersTest, AClaimThatWaitsBesideOthersHoldsTokensForItsSmallestSize) {
  Job job;
  job.min_learners = 2;
  job.max_learners = 6;
  Wanted wanted;
  EXPECT_EQ(most_learners(job, wanted), 6);
  wanted.smallest = true;
  EXPECT_EQ(most_learners(job, wanted), 2);
  wanted.turn = true;
  EXPECT_EQ(most_learners(job, wanted), 6) << "the decision says what it gets";
}

// A borrower that was asked to go by a deadline, and how long until then.
YieldStep step_at(int64_t left_s, GiveBack back, int64_t kill_wait_s = 30, bool comes_back = true) {
  ClusterState state = cluster(1, 2);
  add_tenant(&state, "vision", 2);
  Job& victim = add_running(&state, 0, {{0, 2}}, Charge::kBorrowed);
  victim.yields_to = 9;
  const Yield told{9, state.now_s + left_s, 0};
  return yield_order(state, victim, told, std::nullopt, back, comes_back, {120, kill_wait_s}).step;
}

TEST(YieldOrderTest, AJobThatSavesHasUntilTheDeadlineAndALittleMore) {
  EXPECT_EQ(step_at(0, GiveBack::kSave), YieldStep::kNothing);
  EXPECT_EQ(step_at(-2, GiveBack::kSave), YieldStep::kNothing);
  EXPECT_EQ(step_at(-3, GiveBack::kSave), YieldStep::kRequeue);
}

TEST(YieldOrderTest, AJobThatCannotSaveIsTakenSoEarlyThatItIsGoneByTheDeadline) {
  for (const GiveBack back : {GiveBack::kRequeue, GiveBack::kEnd}) {
    EXPECT_EQ(step_at(31, back), YieldStep::kNothing);
    EXPECT_EQ(step_at(30, back), YieldStep::kPutBack);
    EXPECT_EQ(step_at(61, back, 500), YieldStep::kNothing) << "at most half of the grace is taken from it";
    EXPECT_EQ(step_at(60, back, 500), YieldStep::kPutBack);
  }
}

TEST(YieldOrderTest, AJobThatCannotComeBackIsEndedWhenItsTimeIsOver) {
  for (const GiveBack back : {GiveBack::kSave, GiveBack::kRequeue, GiveBack::kEnd})
    EXPECT_EQ(step_at(-3, back, 30, /*comes_back=*/false), YieldStep::kEnd);
}

TEST(YieldOrderTest, AnIdleJobGoesToTheEndOfTheQueue) {
  ClusterState state = cluster(1, 2);
  add_tenant(&state, "vision", 2);
  Job& victim = add_running(&state, 0, {{0, 2}}, Charge::kBorrowed);
  const YieldRequest asked{9, 0, 0};
  for (const bool idle : {false, true}) {
    victim.idle = idle;
    const YieldOrder order = yield_order(state, victim, std::nullopt, asked, GiveBack::kSave, true, {120, 30});
    EXPECT_EQ(order.step, YieldStep::kAsk);
    EXPECT_EQ(order.queued_s, idle ? std::optional<int64_t>(state.now_s) : std::nullopt);
  }
}

TEST(ReturnedTest, OnlyAJobThatComesBackSmallerLosesItsMinimumRunTime) {
  JobLabel label;
  label.size = ChosenSize{4, 1000};
  EXPECT_FALSE(returned(label, 7).shrunk) << "nothing was asked of it";
  EXPECT_TRUE(returned(label, 7).size);
  label.yields = Yield{9, 5000, 0};
  JobLabel gone = returned(label, 7);
  EXPECT_FALSE(gone.yields);
  EXPECT_FALSE(gone.shrunk);
  EXPECT_FALSE(gone.size) << "it is chosen anew";
  label.yields = Yield{9, 5000, 2};
  EXPECT_TRUE(returned(label, 7).shrunk);
  label.yields = Yield{7, 5000, 4};
  gone = returned(label, 7);
  EXPECT_TRUE(gone.shrunk) << "it was asked by itself, to start again at another size";
  EXPECT_EQ(gone.size->learners, 4);
  EXPECT_FALSE(gone.yields);
}

}  // namespace
}  // namespace dl::policy
