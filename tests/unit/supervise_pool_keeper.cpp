// SPDX-License-Identifier: Apache-2.0
// The servers of an elastic pool while learners train: which are started, what is done when one ends or its agent is
// lost, and when the run cannot go on. The test says what the pool's directory knows.
#include "launcher/supervise/pool_keeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/awake_clock.h"
#include "common/base/clock.h"
#include "tests/unit/supervise_fake_connections.h"
#include "tests/unit/supervise_owner.h"

namespace dl::supervise {

using namespace protocol;

namespace {

class ToldPool final : public ServerPool {
 public:
  using ServerPool::ServerPool;
  pool::DirectoryFacts facts() const override { return told; }
  pool::DirectoryFacts told;
};

// Two learners and three places for servers, of which two are needed; each rank has a node and an agent of its own.
class PoolKeeperTest : public OwnerTest {
 protected:
  PoolKeeperTest() : OwnerTest(5) {}
  void SetUp() override {
    OwnerTest::SetUp();
    plan_.servers = 3;
    plan_.pool = ServerRange{2, 3, true};
    plan_.job_dir = folder_;
    for (size_t node = 0; node < 5; ++node) {
      plan_.nodes[node].learners = 1;
      plan_.nodes[node].servers = node < 2 ? 0 : 1;
    }
    begin();
  }
  void TearDown() override {
    keeper_->close();
    OwnerTest::TearDown();
  }
  void begin() {
    begin_processing();
    agents_ = std::make_unique<AgentFleet>(&connections_, nodes_->plan(), std::chrono::seconds(300));
    attempt_ = Attempt(plan_, awake_ms(), unix_ms());
    agents_->begin(5, false, awake_ms());
    for (int rank = 0; rank < 5; ++rank) comes(rank);
    state_.phase = Phase::kRunning;
    state_.learners_started = state_.all_started = true;
    auto pool = std::make_unique<ToldPool>(&loop_);
    pool_ = pool.get();
    keeper_ = std::make_unique<PoolKeeper>(
        std::move(pool),
        PoolKeeper::Owners{&attempt_, &state_, nodes_.get(), agents_.get(), &data_, journal_.get(), &voice_},
        PoolKeeper::Calls{[this](int rank) { started_.push_back(rank); },
                          [this](int rank, const Failure& failure) { failed_.emplace_back(rank, describe(failure)); },
                          [this] { ++looked_whether_over_; },
                          [this](const std::vector<std::string>& nodes) {
                            released_.insert(released_.end(), nodes.begin(), nodes.end());
                          }});
  }
  void comes(int rank) {
    Hello hello;
    hello.host = "n" + std::to_string(rank);
    agents_->greet(20 + static_cast<ConnectionId>(rank), rank, false, awake_ms());
    attempt_.said_hello(rank, hello);
  }
  // The pool is open; as many as it needs are started, and have joined.
  void serves() {
    plan::RunFacts facts;
    ASSERT_TRUE(keeper_->open("127.0.0.1:1", &facts));
    pool_->told.wanted = 2;
    keeper_->start_servers();
    ASSERT_EQ(started_, (std::vector<int>{2, 3}));
    pool_->told.members = 2;
    keeper_->look();
    started_.clear();
    said_.clear();
  }
  static Exited ended(int exit, int signal = 0) {
    Exited exited;
    exited.exit = exit;
    exited.signal = signal;
    return exited;
  }
  std::string told_last() const { return said_.empty() ? "" : said_.back(); }

  FakeConnections connections_;
  DataFetch data_;
  std::unique_ptr<AgentFleet> agents_;
  ToldPool* pool_ = nullptr;
  std::unique_ptr<PoolKeeper> keeper_;

  std::vector<int> started_;
  std::vector<std::pair<int, std::string>> failed_;
  int looked_whether_over_ = 0;
  std::vector<std::string> released_;
};

TEST_F(PoolKeeperTest, AnAttemptWithoutAPoolKnowsNoServers) {
  keeper_->start_servers();
  keeper_->look();
  EXPECT_FALSE(keeper_->takes_end(2, ended(1)));
  EXPECT_FALSE(keeper_->goes_on_without(2, {}));
  EXPECT_TRUE(started_.empty());
  EXPECT_TRUE(said_.empty());
}

TEST_F(PoolKeeperTest, AsManyServersAreStartedAsThePoolWants) {
  serves();
  EXPECT_FALSE(attempt_.learner(2).in_reserve);
  EXPECT_TRUE(attempt_.learner(4).in_reserve);
  keeper_->look();
  EXPECT_TRUE(started_.empty()) << "enough run";
  pool_->told.wanted = 3;
  state_.phase = Phase::kStopping;
  keeper_->look();
  EXPECT_TRUE(started_.empty()) << "the learners stop";
  state_.phase = Phase::kRunning;
  keeper_->look();
  keeper_->look();
  EXPECT_EQ(started_, std::vector<int>{4});
  EXPECT_EQ(said_, std::vector<std::string>{"dlrun: the pool wants 3 servers: server 2 starts"});
}

TEST_F(PoolKeeperTest, OneThatWasToLeaveWaitsForTheNextServer) {
  serves();
  pool_->told.leaving = 1;
  EXPECT_FALSE(keeper_->takes_end(0, ended(0))) << "a learner";
  EXPECT_TRUE(keeper_->takes_end(3, ended(0)));
  EXPECT_EQ(told_last(), "dlrun: server 1 has left the pool");
  EXPECT_TRUE(attempt_.learner(3).in_reserve);
  EXPECT_FALSE(attempt_.learner(3).ended);
  EXPECT_TRUE(connections_.last_was(23, Again{}));
  pool_->told.leaving = 0;
  pool_->told.members = 1;
  keeper_->look();
  EXPECT_EQ(started_, std::vector<int>{4}) << "the agent of server 1 has not come again";
  EXPECT_TRUE(failed_.empty());
}

TEST_F(PoolKeeperTest, OneThatFailsIsReplacedAndTheRunGoesOn) {
  serves();
  EXPECT_TRUE(keeper_->takes_end(2, ended(-1, SIGKILL)));
  EXPECT_EQ(told_last(), "dlrun: server 0 on n2 was killed by signal 9 (SIGKILL); the pool goes on");
  EXPECT_EQ(journal_->events().back().reason, "server 0 on n2 was killed by signal 9 (SIGKILL)");
  EXPECT_TRUE(attempt_.learner(2).in_reserve);
  EXPECT_TRUE(failed_.empty());
  EXPECT_EQ(looked_whether_over_, 0);
}

TEST_F(PoolKeeperTest, OneThatEndsBeforeThePoolIsThereFailsTheRun) {
  state_.all_started = false;
  plan::RunFacts facts;
  ASSERT_TRUE(keeper_->open("127.0.0.1:1", &facts));
  pool_->told.wanted = 2;
  keeper_->start_servers();
  EXPECT_TRUE(keeper_->takes_end(2, ended(0)));
  ASSERT_EQ(failed_.size(), 1U);
  EXPECT_EQ(failed_[0].first, 2);
  EXPECT_NE(failed_[0].second.find("it ended with code 0 and has not served"), std::string::npos) << failed_[0].second;
  EXPECT_TRUE(attempt_.learner(2).ended);
  EXPECT_EQ(connections_.closed, std::set<ConnectionId>{22}) << "nothing comes after this attempt";
  EXPECT_EQ(looked_whether_over_, 1);
  EXPECT_TRUE(said_.empty());
}

TEST_F(PoolKeeperTest, ThePoolsLossOfStateIsTheFailureOfTheServerThatEnded) {
  serves();
  EXPECT_TRUE(keeper_->takes_end(3, ended(1)));
  pool_->told.lost = 12;
  keeper_->look();
  EXPECT_EQ(told_last().rfind("dlrun: the pool has lost the state of 12 of its", 0), 0U) << told_last();
  ASSERT_EQ(failed_.size(), 1U);
  EXPECT_EQ(failed_[0], (std::pair<int, std::string>(3, "server 1 on n3 exited with code 1")));
  EXPECT_EQ(looked_whether_over_, 1);
  EXPECT_FALSE(keeper_->is_open());
  keeper_->look();
  EXPECT_EQ(failed_.size(), 1U) << "once";
}

TEST_F(PoolKeeperTest, AServerThatEndsSinceStateIsLostIsNotReplaced) {
  serves();
  pool_->told.lost = 12;
  EXPECT_TRUE(keeper_->takes_end(3, ended(-1, SIGSEGV)));
  ASSERT_EQ(failed_.size(), 1U);
  EXPECT_EQ(failed_[0].first, 3);
  EXPECT_TRUE(attempt_.learner(3).ended);
}

TEST_F(PoolKeeperTest, TheNodeOfALostServerIsGivenBackWhileTheRunGoesOn) {
  serves();
  Failure lost;
  lost.kind = Failure::Kind::kAgentLost;
  lost.text = "node n4 is gone";
  EXPECT_FALSE(keeper_->goes_on_without(1, lost)) << "a learner";
  EXPECT_TRUE(keeper_->goes_on_without(4, lost));
  EXPECT_EQ(told_last(), "dlrun: no server can run at place 2 any more: node n4 is gone");
  EXPECT_TRUE(released_.empty()) << "its agent is lost, and not its node";
  nodes_->lose(3);
  EXPECT_FALSE(keeper_->goes_on_without(3, lost)) << "one place is left, and two are needed";
  EXPECT_EQ(told_last(), "dlrun: 1 place is left for servers of the pool, which needs 2");
  EXPECT_TRUE(released_.empty());
}

TEST_F(PoolKeeperTest, ALostServerIsReplacedElsewhere) {
  serves();
  Failure lost;
  lost.kind = Failure::Kind::kAgentLost;
  nodes_->lose(3);
  EXPECT_TRUE(keeper_->goes_on_without(3, lost));
  EXPECT_EQ(told_last(), "dlrun: server 1 on n3 was lost: its agent is gone; the pool goes on");
  EXPECT_EQ(released_, std::vector<std::string>{"n3"});
  state_.phase = Phase::kEnding;
  EXPECT_FALSE(keeper_->goes_on_without(2, lost)) << "the learners are being ended";
}

TEST_F(PoolKeeperTest, WhenThePoolClosesThoseInReserveEnd) {
  serves();
  keeper_->close();
  EXPECT_TRUE(attempt_.learner(4).ended);
  EXPECT_FALSE(attempt_.learner(3).ended) << "its server ends by itself";
  EXPECT_TRUE(connections_.last_was(24, Kill{0}));
  EXPECT_EQ(connections_.said[24].size(), 1U);
  keeper_->close();
  EXPECT_EQ(connections_.said[24].size(), 1U);
  EXPECT_FALSE(keeper_->takes_end(3, ended(0))) << "its end is that of any learner";
}

TEST_F(PoolKeeperTest, AgentsThatMayServeAnotherAttemptStayUntilTheRunEnds) {
  plan_.restarts = 1;
  begin();
  serves();
  attempt_.started(2, 100);
  keeper_->close();
  EXPECT_TRUE(attempt_.learner(4).ended);
  EXPECT_TRUE(connections_.said[24].empty());
  keeper_->dismiss_reserve();
  EXPECT_TRUE(connections_.last_was(24, Kill{0}));
  EXPECT_TRUE(connections_.said[22].empty()) << "its server runs";
}

}  // namespace
}  // namespace dl::supervise
