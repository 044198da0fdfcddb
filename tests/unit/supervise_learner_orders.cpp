// SPDX-License-Identifier: Apache-2.0
// What learners are told by the states of a run, and that those that have ended are told nothing.
#include "launcher/supervise/learner_orders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>

#include "common/contract/progress_page.h"
#include "tests/unit/supervise_fake_connections.h"

namespace dl::supervise {

using namespace protocol;

namespace {

// Three learners, of which `servers` serve the first one; learner N's agent has connection 20 + N, and learner 1 has
// ended.
class LearnerOrdersTest : public testing::Test {
 protected:
  void begin(int servers) {
    plan::LaunchPlan plan;
    plan.servers = servers;
    plan.first_decides = true;
    plan.nodes.resize(1);
    plan.learners.resize(3);
    attempt_ = Attempt(plan, 1000, 0);
    agents_.begin(3, false, 1000);
    for (int rank = 0; rank < 3; ++rank) agents_.greet(20 + static_cast<ConnectionId>(rank), rank, false, 1000);
    attempt_.end(1);
    connections_.said.clear();
  }
  // Which learners were told this last, as "0 2".
  template <typename T>
  std::string told(const T& message) {
    std::string ranks;
    for (int rank = 0; rank < 3; ++rank)
      if (connections_.last_was(20 + static_cast<ConnectionId>(rank), message))
        ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
    return ranks;
  }

  plan::LaunchPlan none_;
  FakeConnections connections_;
  AgentFleet agents_{&connections_, none_, std::chrono::seconds(300)};
  Attempt attempt_;
  LearnerOrders orders_{&agents_, &attempt_};
};

TEST_F(LearnerOrdersTest, ARequestGoesToThoseThatDecide) {
  begin(/*servers=*/0);
  orders_.perform(SendRequest{7, ProgressPage::kSave});
  EXPECT_EQ(told(Request{7, ProgressPage::kSave}), "0 2");
  begin(/*servers=*/2);
  orders_.perform(SendRequest{8, ProgressPage::kSave});
  EXPECT_EQ(told(Request{8, ProgressPage::kSave}), "0");
}

TEST_F(LearnerOrdersTest, AllElseGoesToAllThatHaveNotEnded) {
  begin(/*servers=*/2);
  orders_.perform(SendDecide{7, ProgressPage::kSave, 41});
  EXPECT_EQ(told(Decide{7, ProgressPage::kSave, 41}), "0 2");
  orders_.perform(SendWithdraw{7});
  EXPECT_EQ(told(Withdraw{7}), "0 2");
  orders_.perform(SignalLearners{SIGTERM});
  EXPECT_EQ(told(Signal{SIGTERM}), "0 2");
  orders_.perform(SignalLearners{SIGUSR1, true});
  EXPECT_EQ(told(Signal{SIGUSR1, true}), "0 2");
  orders_.perform(KillLearners{500});
  EXPECT_EQ(told(Kill{500}), "0 2");
}

}  // namespace
}  // namespace dl::supervise
