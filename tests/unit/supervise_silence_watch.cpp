// SPDX-License-Identifier: Apache-2.0
// Agents that are silent although their node answers. That a suspended job is spared is tried in tests/cluster.
#include "launcher/supervise/silence_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "common/base/awake_clock.h"
#include "tests/unit/supervise_fake_connections.h"
#include "tests/unit/supervise_loop.h"
#include "tests/unit/supervise_plan.h"

namespace dl::supervise {

using namespace protocol;

namespace {

// Two learners; the agent of learner N has connection 20 + N. Slurm, without a job id, answers at once that it knows
// nothing.
class SilenceWatchTest : public LoopTest {
 protected:
  SilenceWatchTest() {
    attempt_ = Attempt(plan_of(2), now_, 0);
    agents_.begin(2, false, now_);
    for (int rank = 0; rank < 2; ++rank)
      agents_.greet(20 + static_cast<ConnectionId>(rank), rank, false, now_ - 60'000);
    state_.phase = Phase::kRunning;
    state_.learners_started = true;
  }

  const int64_t now_ = awake_ms();
  plan::LaunchPlan none_;
  FakeConnections connections_;
  AgentFleet agents_{&connections_, none_, std::chrono::seconds(300)};
  Attempt attempt_;
  RunState state_;
  SlurmJob slurm_{&loop_, "", {}};
  std::vector<Failure> found_;
  SilenceWatch watch_{&agents_, &slurm_, &attempt_, &state_, std::chrono::seconds(30), [this](const Failure& failure) {
                        found_.push_back(failure);
                        state_.phase = Phase::kEnding;  // as a failure ends the other learners
                      }};
};

TEST_F(SilenceWatchTest, AgentsThatHaveSaidNothingForTooLongAreFound) {
  agents_.heard(1, now_);
  watch_.look(now_);
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_[0].rank, 0);
  EXPECT_EQ(found_[0].kind, Failure::Kind::kAgentLost);
  EXPECT_EQ(found_[0].text, "its agent (dl-agent) on n0 has said nothing for 30s, though its node answers");
  EXPECT_FALSE(found_[0].asked);
}

TEST_F(SilenceWatchTest, TheFirstIsToBlameAndNoneOnceTheLearnersAreToEnd) {
  watch_.look(now_);
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_FALSE(found_[0].asked);
  EXPECT_TRUE(found_[1].asked) << "the first one has ended the attempt";
  watch_.look(now_);
  ASSERT_EQ(found_.size(), 4U);
  EXPECT_TRUE(found_[2].asked);
}

TEST_F(SilenceWatchTest, NobodyIsAskedAboutAgentsThatAreHeardOrWhoseLearnerHasEnded) {
  agents_.heard(1, now_);
  attempt_.end(0);
  watch_.look(now_);
  EXPECT_TRUE(found_.empty());
}

TEST_F(SilenceWatchTest, BeforeLearnersRunAndAfterwardsSilenceDoesNotMatter) {
  state_.learners_started = false;
  watch_.look(now_);
  state_.learners_started = true;
  state_.phase = Phase::kJudging;
  watch_.look(now_);
  EXPECT_TRUE(found_.empty());
}

}  // namespace
}  // namespace dl::supervise
