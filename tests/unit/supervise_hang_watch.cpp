// SPDX-License-Identifier: Apache-2.0
// A hang: who is asked for stacks, when all have answered, and who is blamed.
#include "launcher/supervise/hang_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/unit/supervise_fake_connections.h"
#include "tests/unit/supervise_plan.h"

namespace dl::supervise {

using namespace protocol;

namespace {

// Three learners, each on a node of its own; learner N's agent has connection 20 + N.
class HangWatchTest : public testing::Test {
 protected:
  HangWatchTest() { begin(); }
  void begin() {
    attempt_ = Attempt(plan_, 1000, 0);
    state_.phase = Phase::kRunning;
    agents_.begin(3, false, 1000);
    for (int rank = 0; rank < 3; ++rank) agents_.greet(20 + static_cast<ConnectionId>(rank), rank, false, 1000);
    watch_.begin_attempt(&agents_, "/logs");
  }
  static StandingStill still(int64_t step, const std::string& state = "S") {
    StandingStill its;
    its.step = step;
    its.state = state;
    its.silent_ms = 60'000;
    its.last_lines = {"line " + std::to_string(step)};
    return its;
  }
  std::string stalled(int rank) {
    Stalled its;
    its.silent_ms = 60'500;
    return watch_.stalled(rank, its, 100'000);
  }

  plan::LaunchPlan plan_ = plan_of(3);
  FakeConnections connections_;
  AgentFleet agents_{&connections_, plan_, std::chrono::seconds(300)};
  Attempt attempt_;
  RunState state_;
  HangWatch watch_{&attempt_, &state_, 60'000};
};

TEST_F(HangWatchTest, AllThatRunAreAskedForTheirStacksOnce) {
  attempt_.end(2);
  EXPECT_EQ(stalled(1), "learner 1 has made no progress for 60 s; writing stack traces to /logs");
  EXPECT_TRUE(connections_.last_was(20, Stacks{"/logs/learner-0.stacks.txt"}));
  EXPECT_TRUE(connections_.last_was(21, Stacks{"/logs/learner-1.stacks.txt"}));
  EXPECT_FALSE(connections_.last_was(22, Stacks{"/logs/learner-2.stacks.txt"}));
  EXPECT_EQ(stalled(0), "") << "it is being looked at already";
}

TEST_F(HangWatchTest, TheOneThatTheOthersWaitForIsBlamedOnceAllHaveAnswered) {
  EXPECT_FALSE(watch_.answered(0, still(42))) << "nobody was asked";
  stalled(0);
  EXPECT_FALSE(watch_.answered(0, still(42)));
  EXPECT_FALSE(watch_.answered(2, still(42)));
  EXPECT_TRUE(watch_.answered(1, still(41)));
  const auto failure = watch_.settle();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, Failure::Kind::kHang);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->last_lines, std::vector<std::string>{"line 41"});
  EXPECT_NE(stalled(0), "") << "the next hang is looked at, too";
}

TEST_F(HangWatchTest, AnswersAreWaitedForTenSecondsAndThenTheLastReportCounts) {
  Progress at;
  at.state = ProgressPage::kTraining;
  for (const int rank : {0, 1, 2}) {
    at.step = rank == 2 ? 40 : 42;
    attempt_.progressed(rank, at, 2000);
  }
  EXPECT_FALSE(watch_.is_overdue(1'000'000)) << "there is no hang";
  stalled(0);
  EXPECT_FALSE(watch_.answered(0, still(42)));
  EXPECT_FALSE(watch_.answered(1, still(42)));
  EXPECT_FALSE(watch_.is_overdue(110'000));
  EXPECT_TRUE(watch_.is_overdue(110'001));
  const auto failure = watch_.settle();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2) << "it has not even answered";
  EXPECT_TRUE(failure->last_lines.empty());
  EXPECT_FALSE(watch_.is_overdue(1'000'000));
}

TEST_F(HangWatchTest, ALearnerThatServesIsNotBlamedSinceItsWorkIsToWait) {
  plan_.servers = 2;
  plan_.first_decides = true;
  begin();
  stalled(0);
  watch_.answered(1, still(-1));
  watch_.answered(2, still(-1));
  EXPECT_TRUE(watch_.answered(0, still(7)));
  const auto failure = watch_.settle();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 0);
}

TEST_F(HangWatchTest, AStopHasADeadlineOfItsOwnSoNoHangIsLookedForThen) {
  state_.phase = Phase::kStopping;
  EXPECT_EQ(stalled(0), "");
  EXPECT_TRUE(connections_.said.empty());
  state_.phase = Phase::kRunning;
  EXPECT_NE(stalled(0), "");
  state_.phase = Phase::kStopping;
  EXPECT_TRUE(watch_.settle()) << "it began before the stop";
}

TEST_F(HangWatchTest, NothingOfAHangIsLeftWhenTheLearnersAreToEndOrAnotherAttemptBegins) {
  stalled(0);
  watch_.answered(1, still(1));
  state_.phase = Phase::kEnding;
  EXPECT_FALSE(watch_.settle());
  state_.phase = Phase::kRunning;
  EXPECT_FALSE(watch_.is_overdue(1'000'000));
  stalled(0);
  EXPECT_FALSE(watch_.answered(0, still(5)));
  EXPECT_FALSE(watch_.answered(2, still(5))) << "the answer before does not count";
  begin();
  EXPECT_FALSE(watch_.is_overdue(1'000'000));
  for (const int rank : {0, 1, 2}) attempt_.end(rank);
  EXPECT_FALSE(watch_.settle()) << "none runs";
}

}  // namespace
}  // namespace dl::supervise
