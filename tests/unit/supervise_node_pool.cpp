// SPDX-License-Identifier: Apache-2.0
// Which nodes a run goes on with: after losses, after checks, after the death of a dlrun.
#include "launcher/supervise/node_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "launcher/supervise/attempt.h"

namespace dl::supervise {
namespace {

using Names = std::vector<std::string>;

// One learner on each of these nodes.
plan::LaunchPlan plan_on(const Names& nodes) {
  plan::LaunchPlan plan;
  plan.under_slurm = plan.launcher_store = true;
  for (const std::string& name : nodes) {
    plan::PlannedNode node;
    node.name = name;
    plan::PlannedLearner learner;
    learner.rank = learner.node = static_cast<int>(plan.nodes.size());
    plan.nodes.push_back(node);
    plan.learners.push_back(learner);
  }
  return plan;
}

// An elastic job: as many learners as there are nodes left, at least two.
class NodePoolTest : public testing::Test {
 protected:
  NodePool::Without without() {
    return [this](const Names& gone, const plan::LaunchPlan& /*now*/) -> Result<plan::LaunchPlan> {
      asked_ = gone;
      for (const std::string& name : gone) there_.erase(std::remove(there_.begin(), there_.end(), name), there_.end());
      if (there_.size() < 2) return Error{Errc::kConflict, "too few"};
      plan::LaunchPlan plan = planned();
      plan.overcommit = overcommits_;
      return plan;
    };
  }
  NodePool::With with() {
    return [this](const std::vector<plan::Node>& nodes, const plan::LaunchPlan& /*now*/) -> Result<plan::LaunchPlan> {
      for (const plan::Node& node : nodes) {
        there_.push_back(node.name);
        companion_of_[node.name] = node.companion;
      }
      return planned();
    };
  }
  plan::LaunchPlan planned() {
    plan::LaunchPlan plan = plan_on(there_);
    for (plan::PlannedNode& node : plan.nodes) node.companion = companion_of_[node.name];
    return plan;
  }
  Names there_ = {"n1", "n2", "n3", "n4"}, asked_;
  std::map<std::string, std::string> companion_of_;  // by node
  bool overcommits_ = false;
};

TEST_F(NodePoolTest, ItGoesOnWithoutWhatIsLostOrBad) {
  NodePool pool(plan_on(there_), without());
  EXPECT_FALSE(pool.any_lost());
  pool.lose(2);
  pool.found_bad({"n1"});
  EXPECT_TRUE(pool.any_lost());
  ASSERT_TRUE(pool.rest_suffices());
  EXPECT_EQ(asked_, (Names{"n1", "n3"}));
  EXPECT_EQ(pool.names(), (Names{"n1", "n2", "n3", "n4"})) << "nothing is decided yet";
  EXPECT_EQ(pool.next(true).world_size(), 2);
  const NodePool::Left left = pool.go_on_without();
  EXPECT_EQ(left.out, (Names{"n1", "n3"}));
  EXPECT_EQ(left.lost, Names{"n3"}) << "Slurm keeps the bad one: it still answers";
  EXPECT_EQ(pool.names(), (Names{"n2", "n4"}));
  EXPECT_FALSE(pool.any_lost());
}

TEST_F(NodePoolTest, ARestThatIsTooSmallOrMoreCrowdedDoesNotDo) {
  NodePool pool(plan_on(there_), without());
  pool.lose(0);
  overcommits_ = true;
  EXPECT_FALSE(pool.rest_suffices());
  overcommits_ = false;
  EXPECT_TRUE(pool.rest_suffices());
  pool.lose(1);
  pool.lose(2);
  EXPECT_FALSE(pool.rest_suffices());
  NodePool fixed(plan_on(there_), {});
  fixed.lose(0);
  EXPECT_FALSE(fixed.rest_suffices());
}

TEST_F(NodePoolTest, NodesOfACompanionAreUsedFromTheNextAttemptOnAndLostTogether) {
  std::vector<plan::Node> added(2);
  added[0].name = "n5";
  added[1].name = "n6";
  added[0].companion = added[1].companion = "13";
  NodePool pool(plan_on(there_), without(), with());
  ASSERT_TRUE(pool.plan_larger(added));
  EXPECT_FALSE(pool.uses("13")) << "the present attempt goes on";
  pool.drop_larger();
  EXPECT_EQ(asked_, (Names{"n5", "n6"})) << "no later plan has them";
  EXPECT_FALSE(pool.larger());

  ASSERT_TRUE(pool.plan_larger(added));
  pool.take_larger();
  EXPECT_TRUE(pool.uses("13"));
  EXPECT_EQ(pool.companion_of(5), "13");
  EXPECT_EQ(pool.companion_of(3), "");
  pool.lose(4);
  EXPECT_TRUE(pool.any_lost_of("13"));
  EXPECT_FALSE(pool.any_own_lost());
  pool.lose(0);
  EXPECT_TRUE(pool.any_own_lost());
  ASSERT_TRUE(pool.rest_suffices());
  const NodePool::Left left = pool.go_on_without();
  EXPECT_EQ(left.out, (Names{"n1", "n5", "n6"}));
  EXPECT_EQ(left.lost, Names{"n1"}) << "Slurm is asked to take it out of the job";
  EXPECT_EQ(left.companions, Names{"13"});
  EXPECT_EQ(pool.names(), (Names{"n2", "n3", "n4"}));
}

TEST_F(NodePoolTest, OfSeveralCompanionsOneIsLostAndOneThatWasNewThenIsUsedLater) {
  std::vector<plan::Node> first(1), second(1);
  first[0].name = "n5";
  first[0].companion = "13";
  second[0].name = "n6";
  second[0].companion = "14";
  NodePool pool(plan_on(there_), without(), with());
  ASSERT_TRUE(pool.plan_larger(first));
  pool.take_larger();
  ASSERT_TRUE(pool.plan_larger(second));
  EXPECT_EQ(pool.larger()->nodes.size(), 6U) << "all that it uses, and the new one";
  pool.lose_companion("13");
  pool.drop_larger();
  EXPECT_EQ(asked_, Names{"n6"});
  ASSERT_TRUE(pool.rest_suffices());
  EXPECT_EQ(pool.go_on_without().companions, Names{"13"});
  EXPECT_EQ(pool.names(), (Names{"n1", "n2", "n3", "n4"}));
  ASSERT_TRUE(pool.plan_larger(second));
  pool.take_larger();
  EXPECT_TRUE(pool.uses("14"));
  EXPECT_FALSE(pool.uses("13"));
  ASSERT_TRUE(pool.plan_larger(first)) << "a third one may have the nodes that the first had";
  pool.take_larger();
  pool.lose_companion("13");
  EXPECT_FALSE(pool.any_lost_of("14"));
  ASSERT_TRUE(pool.rest_suffices());
  EXPECT_EQ(pool.go_on_without().out, Names{"n5"});
  EXPECT_TRUE(pool.uses("14"));
}

TEST_F(NodePoolTest, AnotherAttemptHasLostNothingYet) {
  NodePool pool(plan_on(there_), without());
  pool.lose(1);
  pool.begin_attempt();
  EXPECT_FALSE(pool.any_lost());
}

TEST_F(NodePoolTest, TheFenceIsOnlyRaised) {
  NodePool pool(plan_on(there_), without());
  EXPECT_FALSE(pool.fenced(0));
  EXPECT_TRUE(pool.raise_fence(5000));
  EXPECT_FALSE(pool.raise_fence(4000));
  EXPECT_TRUE(pool.fenced(4999));
  EXPECT_FALSE(pool.fenced(5000));
}

TEST_F(NodePoolTest, SuspectsAreNodesOfTheNextPlanWhereLearnersFailedByThemselves) {
  NodePool pool(plan_on(there_), without());
  Attempt attempt(pool.plan(), 0, 0);
  for (int rank = 0; rank < 4; ++rank) {
    Failure failure;
    failure.rank = rank;
    failure.asked = rank == 1;
    attempt.fail(failure);
  }
  pool.lose(3);
  ASSERT_TRUE(pool.rest_suffices());
  EXPECT_EQ(pool.suspects(attempt, false), (Names{"n1", "n3", "n4"}));
  EXPECT_EQ(pool.suspects(attempt, true), (Names{"n1", "n3"}));
}

TEST_F(NodePoolTest, AStoreThatCouldNotBeHadIsNotTriedAgainOnTheRest) {
  NodePool pool(plan_on(there_), without());
  pool.use_store_without_libuv();
  EXPECT_FALSE(pool.plan().launcher_store);
  pool.lose(0);
  ASSERT_TRUE(pool.rest_suffices());
  pool.go_on_without();
  EXPECT_FALSE(pool.plan().launcher_store);
  EXPECT_EQ(pool.plan().framework_environment.at("USE_LIBUV"), "0");
}

TEST_F(NodePoolTest, ASuccessorHasTheStoreWhereItWas) {
  record::RunMemory memory;
  for (const bool left_out : {false, true}) {
    if (left_out) memory.left_out = {"n2"};
    memory.store_host = "";
    NodePool ours(plan_on(there_), without());
    EXPECT_EQ(ours.store_host(), "");
    ours.resume(memory, 0, 0);
    EXPECT_TRUE(ours.plan().launcher_store);
    NodePool first(plan_on(there_), without());
    first.drop_launcher_store();
    memory.store_host = first.store_host();
    NodePool second(plan_on(there_), without());
    second.resume(memory, 0, 0);
    EXPECT_FALSE(second.plan().launcher_store);
    EXPECT_EQ(second.plan().framework_environment.count("USE_LIBUV"), 0U);
    EXPECT_EQ(second.store_host(), memory.store_host);
    first.use_store_without_libuv();
    memory.store_host = first.store_host();
    NodePool third(plan_on(there_), without());
    third.resume(memory, 0, 0);
    EXPECT_FALSE(third.plan().launcher_store);
    EXPECT_EQ(third.plan().framework_environment.at("USE_LIBUV"), "0");
  }
}

TEST_F(NodePoolTest, ASuccessorKeepsTheFenceAndLeavesOutTheSameNodes) {
  record::RunMemory memory;
  memory.left_out = {"n2"};
  memory.fence_unix_ms = 1'789'000'002'000;
  NodePool pool(plan_on(there_), without());
  pool.resume(memory, 10'000, 1'789'000'000'500);
  EXPECT_EQ(pool.names(), (Names{"n1", "n3", "n4"}));
  EXPECT_TRUE(pool.fenced(11'499));
  EXPECT_FALSE(pool.fenced(11'500));
  // A clock that was set back holds nobody up for long.
  NodePool other(plan_on(there_), without());
  other.resume(memory, 10'000, 0);
  EXPECT_FALSE(other.fenced(15'000));
}

TEST_F(NodePoolTest, ASuccessorDoesWithoutANodeThatWasLostBeforeAnythingWasDecided) {
  record::RunMemory memory;
  memory.left_out = {"n2"};
  memory.lost = {"n4", "n9"};
  NodePool pool(plan_on(there_), without());
  EXPECT_EQ(pool.resume(memory, 0, 0), Names{"n4"}) << "Slurm has n9 back already";
  EXPECT_EQ(pool.names(), (Names{"n1", "n3"}));
  EXPECT_FALSE(pool.any_lost());
  // The rest is too small.
  memory.left_out = {};
  memory.lost = {"n1"};
  there_ = {"n1", "n2"};
  NodePool small(plan_on(there_), without());
  EXPECT_TRUE(small.resume(memory, 0, 0).empty());
  EXPECT_TRUE(small.any_lost());
}

}  // namespace
}  // namespace dl::supervise
