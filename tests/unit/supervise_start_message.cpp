// SPDX-License-Identifier: Apache-2.0
// What an agent is told to start.
#include "launcher/supervise/start_message.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>

#include "common/contract/env_names.h"

namespace dl::supervise {

using namespace protocol;

namespace {

class StartMessageTest : public testing::Test {
 protected:
  // Two learners on two nodes; with `servers`, learner 1 serves learner 0.
  void begin(int servers = 0) {
    plan_ = plan::LaunchPlan{};
    plan_.command = {"python", "train.py"};
    plan_.servers = servers;
    plan_.first_decides = servers > 0;
    plan_.metrics = {"loss"};
    plan_.nodes.resize(2);
    plan_.nodes[0].name = "n0";
    plan_.nodes[1].name = "n1";
    plan_.nodes[1].own_gpus = {2, 3};
    plan_.nodes[1].narrowed = true;
    plan_.learners.resize(2);
    plan_.learners[1].rank = plan_.learners[1].node = 1;
    plan_.cross_sizes = {2};
    attempt_ = Attempt(plan_, 1000, 0);
    Hello hello;
    hello.ports = {7001};
    attempt_.said_hello(0, hello);
    attempt_.said_hello(1, hello);
    attempt_.is_called(3, 2, "run");
  }
  Start start(int rank) const { return start_message(plan_, attempt_, record::JobDir("/jobs/7"), rank, settings_); }

  plan::LaunchPlan plan_;
  Attempt attempt_;
  StartSettings settings_;
};

TEST_F(StartMessageTest, EachLearnerGetsItsCommandItsLogAndTheGpusOfItsNode) {
  begin();
  settings_.hang_ms = 60'000;
  settings_.log_limit = 4096;
  const Start first = start(0), second = start(1);
  EXPECT_EQ(second.command, plan_.command);
  EXPECT_EQ(second.log, record::JobDir("/jobs/7").learner_log(3, 1)) << "of the third attempt";
  EXPECT_EQ(second.gpus, (std::vector<int>{2, 3}));
  EXPECT_TRUE(second.narrowed);
  EXPECT_FALSE(first.narrowed);
  EXPECT_EQ(second.context.ports, std::vector<int>{7001});
  EXPECT_EQ(second.hang_ms, 60'000);
  EXPECT_EQ(second.log_limit, 4096U);
  EXPECT_TRUE(second.prefix);
  EXPECT_EQ(second.line_prefix, "[1] ");
  EXPECT_TRUE(second.forced.empty());
}

TEST_F(StartMessageTest, OnlyTheFirstLearnersMetricsAreKept) {
  begin();
  EXPECT_EQ(start(0).series, record::JobDir("/jobs/7").learner_series(3, 0));
  EXPECT_EQ(start(0).metrics, plan_.metrics);
  EXPECT_EQ(start(1).series, "");
  EXPECT_TRUE(start(1).metrics.empty());
}

TEST_F(StartMessageTest, ALearnerThatServesIsNotWatchedForHangsSinceItsWorkIsToWait) {
  begin(/*servers=*/1);
  settings_.hang_ms = 60'000;
  EXPECT_EQ(start(0).hang_ms, 60'000);
  EXPECT_FALSE(start(0).serves);
  EXPECT_EQ(start(1).hang_ms, 0);
  EXPECT_TRUE(start(1).serves);
}

TEST_F(StartMessageTest, ARunBesideOthersPutsItsNumberBeforeEachLine) {
  begin();
  settings_.run = 2;
  EXPECT_EQ(start(1).line_prefix, "[2:1] ");
}

TEST_F(StartMessageTest, WhileOneIsDebuggedTheOthersAreSilentAndHaveNoDebugger) {
  begin();
  ::unsetenv("PYTHONBREAKPOINT");
  settings_.debug = true;
  EXPECT_FALSE(start(0).quiet);
  EXPECT_FALSE(start(0).prefix);
  EXPECT_TRUE(start(0).forced.empty());
  EXPECT_TRUE(start(1).quiet);
  EXPECT_EQ(start(1).forced.at("PYTHONBREAKPOINT"), "0");
  ::setenv("PYTHONBREAKPOINT", "mine.debug", 1);
  EXPECT_TRUE(start(1).forced.empty()) << "the user's own is kept";
  ::unsetenv("PYTHONBREAKPOINT");
  settings_.debug = false;
  settings_.quiet = true;
  EXPECT_TRUE(start(0).quiet);
}

TEST_F(StartMessageTest, LearnersAreToldOfTheCheckpointDirectoryAndTheLeaseOnIt) {
  begin();
  plan_.checkpoint.emplace();
  plan_.checkpoint->path = "/ckpt";
  settings_.lease = "token";
  const Start told = start(1);
  EXPECT_EQ(told.forced.at(env::kCheckpoint), format_checkpoint(*plan_.checkpoint));
  EXPECT_EQ(told.forced.at(env::kLease), "token");
}

}  // namespace
}  // namespace dl::supervise
