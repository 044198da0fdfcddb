// SPDX-License-Identifier: Apache-2.0
// The agents of a run: who may stay for the next attempt, what follows if they do not come, and when one is not waited
// for any more.
#include "launcher/supervise/agent_fleet.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/supervise_fake_connections.h"

namespace dl::supervise {
namespace {

using namespace protocol;

// Two agents: learner 0 by connection 20, learner 1 by connection 21. What "starts" them is a sleep.
class AgentFleetTest : public testing::Test {
 protected:
  AgentFleetTest() {
    plan_.method = plan::LaunchMethod::kSrun;
    plan_.argv = {"sleep", "60"};
    learners_.resize(2);
    state_.phase = Phase::kStarting;
  }
  ~AgentFleetTest() override {
    fleet_.kill_all(SIGKILL);
    end_launcher();
  }
  void come(bool sessions = true) {
    fleet_.greet(20, 0, sessions, ms_);
    fleet_.greet(21, 1, sessions, ms_);
  }
  // What starts the agents has ended.
  void end_launcher() {
    while (fleet_.any_running()) fleet_.reap(ms_);
  }
  // Begins an attempt with a launcher that has ended like this.
  void begin_and_end(std::vector<std::string> launcher) {
    plan_.argv = std::move(launcher);
    fleet_.begin(2, true, ms_);
    ASSERT_TRUE(fleet_.start("127.0.0.1:1", "secret"));
    end_launcher();
  }
  void begin() {
    ASSERT_FALSE(fleet_.begin(2, true, ms_)) << "there is none that could stay";
    ASSERT_TRUE(fleet_.start("127.0.0.1:1", "secret"));
    come();
  }

  plan::LaunchPlan plan_;
  FakeConnections connections_;
  AgentFleet fleet_{&connections_, plan_, std::chrono::seconds(300)};
  RunState state_;
  std::vector<Learner> learners_;
  int64_t ms_ = 100'000;
};

TEST_F(AgentFleetTest, ThoseThatWaitAreToldToBeginAnew) {
  begin();
  EXPECT_EQ(fleet_.rank_of(21), 1);
  ASSERT_TRUE(fleet_.begin(3, true, ms_));
  EXPECT_TRUE(connections_.last_was(20, Again{}));
  EXPECT_EQ(connections_.closed, (std::set<ConnectionId>{20, 21})) << "they connect anew";
  EXPECT_FALSE(fleet_.rank_of(21));
  EXPECT_FALSE(fleet_.has(2));
  come();
  EXPECT_FALSE(fleet_.look(state_, ms_ + 5000).start_again);
  EXPECT_TRUE(fleet_.look(state_, ms_ + 5001).start_again) << "one has not come back";
  fleet_.greet(22, 2, true, ms_);
  EXPECT_FALSE(fleet_.look(state_, ms_ + 5001).start_again);
}

TEST_F(AgentFleetTest, IfTheirLauncherEndsThoseThatWereToBeginAnewAreNotWaitedFor) {
  begin();
  ASSERT_TRUE(fleet_.begin(2, true, ms_));
  fleet_.kill_all(SIGKILL);
  end_launcher();
  EXPECT_TRUE(fleet_.look(state_, ms_).start_again);
  fleet_.begin_again(ms_);
  ASSERT_TRUE(fleet_.start("127.0.0.1:1", "secret"));
  EXPECT_FALSE(fleet_.look(state_, ms_ + 60'000).start_again);
}

TEST_F(AgentFleetTest, AgentsThatDoNotConnectInTimeAreGivenUp) {
  fleet_.begin(2, true, ms_);
  ASSERT_TRUE(fleet_.start("127.0.0.1:1", "secret"));
  fleet_.greet(20, 0, true, ms_);
  EXPECT_FALSE(fleet_.look(state_, ms_ + 300'000).give_up);
  const auto news = fleet_.look(state_, ms_ + 300'001);
  ASSERT_TRUE(news.give_up);
  EXPECT_EQ(news.give_up->kind, Failure::Kind::kNoAgent);
  EXPECT_EQ(news.give_up->text, "its agent has not connected within 5m");
  state_.phase = Phase::kRunning;
  EXPECT_FALSE(fleet_.look(state_, ms_ + 300'001).give_up) << "none is awaited any more";
}

TEST_F(AgentFleetTest, OneAgentOfEachHostIsTold) {
  begin();
  learners_[0].host = learners_[1].host = "n0";
  learners_[0].ended = true;
  connections_.said.clear();
  EXPECT_EQ(fleet_.tell_each_host("line", learners_), 1);
  EXPECT_EQ(connections_.said[20].size(), 1U) << "also if its learner has ended";
  EXPECT_TRUE(connections_.said[21].empty());
  learners_[1].host = "n1";
  EXPECT_EQ(fleet_.tell_each_host("line", learners_), 2);
}

TEST_F(AgentFleetTest, IfOneCannotStayAllGo) {
  begin();
  EXPECT_FALSE(fleet_.begin(2, false, ms_));
  EXPECT_FALSE(connections_.last_was(20, Again{}));
  EXPECT_EQ(connections_.closed, (std::set<ConnectionId>{20, 21}));
  connections_.closed.clear();
  come();
  connections_.cut.insert(21);
  EXPECT_FALSE(fleet_.begin(2, true, ms_)) << "its connection is broken";
  come();
  fleet_.let_go(1);
  EXPECT_FALSE(fleet_.begin(2, true, ms_));
}

TEST_F(AgentFleetTest, ALauncherThatEndedIsGivenTimeForWhatItsAgentsSaid) {
  begin();
  state_.phase = Phase::kRunning;
  fleet_.reap(ms_);
  EXPECT_FALSE(fleet_.look(state_, ms_ + 60'000).give_up);
  fleet_.kill_all(SIGKILL);
  end_launcher();
  fleet_.reap(ms_ + 500);
  EXPECT_FALSE(fleet_.look(state_, ms_ + 1000).give_up);
  const auto news = fleet_.look(state_, ms_ + 1001);
  ASSERT_TRUE(news.give_up);
  EXPECT_EQ(news.give_up->kind, Failure::Kind::kAgentLost);
  EXPECT_EQ(news.give_up->text, "sleep ended while learners were running");
  EXPECT_FALSE(fleet_.begin(2, true, ms_)) << "nothing holds the agents any more";
}

TEST_F(AgentFleetTest, SrunIsStartedAgainSixTimesInAllIfSlurmRefusesIt) {
  plan_.argv = {"false"};
  fleet_.begin(2, true, ms_);
  int tries = 0;
  for (const int pause : {1, 2, 4, 8, 15}) {
    ASSERT_TRUE(fleet_.start("127.0.0.1:1", "secret"));
    end_launcher();
    ms_ += 1001;
    const auto refused = fleet_.look(state_, ms_);
    EXPECT_EQ(refused.line, "false could not start the agents (see its error above); trying again in " +
                                std::to_string(pause) + "s (try " + std::to_string(++tries) + " of 5)");
    EXPECT_FALSE(refused.start_again || refused.give_up);
    const auto waits = fleet_.look(state_, ms_ + 1000 * pause - 1);
    EXPECT_TRUE(waits.line.empty() && !waits.start_again && !waits.give_up) << "said once";
    ms_ += 1000 * pause;
    EXPECT_TRUE(fleet_.look(state_, ms_).start_again);
    fleet_.begin_again(ms_);
  }
  ASSERT_TRUE(fleet_.start("127.0.0.1:1", "secret"));
  end_launcher();
  ms_ += 1001;
  const auto last = fleet_.look(state_, ms_);
  ASSERT_TRUE(last.give_up);
  EXPECT_EQ(last.give_up->kind, Failure::Kind::kNotStarted);
  EXPECT_EQ(last.give_up->text, "false ended before it had started the learners");
  // Another attempt has all its tries.
  fleet_.begin(2, false, ms_);
  EXPECT_NE(fleet_.look(state_, ms_).line.find("(try 1 of 5)"), std::string::npos);
}

TEST_F(AgentFleetTest, AnotherEndOfALauncherIsNoRefusal) {
  const auto starts_again = [this] { return !fleet_.look(state_, ms_ + 1001).give_up; };
  begin_and_end({"false"});
  EXPECT_TRUE(starts_again());
  begin_and_end({"false"});
  plan_.method = plan::LaunchMethod::kMpirun;
  EXPECT_FALSE(starts_again());
  plan_.method = plan::LaunchMethod::kSrun;
  state_.phase = Phase::kEnding;
  EXPECT_FALSE(starts_again()) << "nothing is to be started any more";
  state_.phase = Phase::kStarting;
  come();
  EXPECT_FALSE(starts_again()) << "all agents have come";
  for (const std::string status : {"0", "2", "71", "127"}) {
    begin_and_end({"sh", "-c", "exit " + status});
    EXPECT_FALSE(starts_again()) << status;
  }
  begin_and_end({"sh", "-c", "kill -9 $$"});
  EXPECT_FALSE(starts_again()) << "somebody has killed srun";
}

// srun has the agents killed that run already. 233: as srun ends after "Communication connection failure"; 137: after
// a task was killed.
TEST_F(AgentFleetTest, IfSrunCouldNotReachANodeAllAreStartedAgain) {
  for (const std::string status : {"1", "137", "233"}) {
    begin_and_end({"sh", "-c", "exit " + status});
    fleet_.greet(20, 0, true, ms_);
    connections_.verdicts[20] = Verdict::kAgentKilled;
    EXPECT_FALSE(fleet_.broken(20, "connection closed", false, ms_, learners_)) << "no learner is lost";
    EXPECT_TRUE(fleet_.losses_kept(false).empty());
    EXPECT_TRUE(fleet_.look(state_, ms_ + 1000).line.empty());
    const auto news = fleet_.look(state_, ms_ + 1001);
    EXPECT_FALSE(news.give_up) << status;
    EXPECT_EQ(news.line, "sh could not start the agents (see its error above); trying again in 1s (try 1 of 5)");
    EXPECT_TRUE(fleet_.look(state_, ms_ + 2001).start_again);
    fleet_.begin_again(ms_);
    EXPECT_TRUE(fleet_.losses_kept(true).empty());
  }
}

TEST_F(AgentFleetTest, AnAgentThatIsKilledWhileOthersAreAwaitedIsLostAsSoonAsSrunIsKnownToGoOn) {
  const auto kill_the_first = [this] {
    plan_.argv = {"sleep", "60"};
    fleet_.begin(2, false, ms_);
    ASSERT_TRUE(fleet_.start("127.0.0.1:1", "secret"));
    fleet_.greet(20, 0, true, ms_);
    connections_.verdicts[20] = Verdict::kAgentKilled;
    EXPECT_FALSE(fleet_.broken(20, "connection closed", false, ms_, learners_));
    EXPECT_FALSE(fleet_.has(0));
    EXPECT_TRUE(fleet_.losses_kept(false).empty());
  };
  kill_the_first();
  fleet_.greet(21, 1, true, ms_);
  const auto lost = fleet_.losses_kept(false);
  ASSERT_EQ(lost.size(), 1U) << "all have come";
  EXPECT_EQ(lost[0].rank, 0);
  EXPECT_FALSE(lost[0].asked);
  EXPECT_TRUE(fleet_.losses_kept(false).empty()) << "told once";
  kill_the_first();
  const auto ending = fleet_.losses_kept(true);
  ASSERT_EQ(ending.size(), 1U);
  EXPECT_TRUE(ending[0].asked);
  kill_the_first();
  EXPECT_EQ(fleet_.look(state_, ms_ + 300'001).give_up->kind, Failure::Kind::kNoAgent) << "the other does not come";
}

TEST_F(AgentFleetTest, ANodeThatIsLostWhileOthersAreAwaitedIsLostAtOnce) {
  fleet_.begin(2, true, ms_);
  fleet_.greet(20, 0, true, ms_);
  connections_.verdicts[20] = Verdict::kNodeLost;
  EXPECT_TRUE(fleet_.broken(20, "connection timed out", false, ms_, learners_));
  // So is an agent without srun, which alone ends all for one.
  plan_.method = plan::LaunchMethod::kDirect;
  fleet_.begin(2, false, ms_);
  fleet_.greet(20, 0, true, ms_);
  connections_.verdicts[20] = Verdict::kAgentKilled;
  EXPECT_TRUE(fleet_.broken(20, "connection closed", false, ms_, learners_));
}

TEST_F(AgentFleetTest, WithoutASessionALostConnectionIsALostAgent) {
  fleet_.begin(2, true, ms_);
  come(/*sessions=*/false);
  const auto closed = fleet_.broken(20, "connection closed", false, ms_, learners_);
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->verdict, Verdict::kAgentKilled);
  EXPECT_FALSE(closed->takes_node() || closed->fence_until_ms) << "its kernel has ended the learner";
  EXPECT_FALSE(failure_of(*closed, "n1").asked);
  EXPECT_EQ(failure_of(*closed, "n1").text, "its agent (dl-agent) on n1 was killed");
  EXPECT_FALSE(fleet_.has(0));
  const auto silent = fleet_.broken(21, "connection timed out", false, ms_, learners_);
  ASSERT_TRUE(silent);
  EXPECT_TRUE(silent->takes_node());
  EXPECT_EQ(silent->fence_until_ms, fence_until_ms(ms_, -1));
  EXPECT_EQ(failure_of(*silent, "n2").text, "node n2 does not answer (connection timed out)");
  EXPECT_FALSE(fleet_.broken(99, "connection closed", false, ms_, learners_)) << "nobody's";
}

TEST_F(AgentFleetTest, WithASessionItIsWaitedForUntilBothWaysTellMore) {
  begin();
  EXPECT_FALSE(fleet_.broken(20, "connection reset", false, ms_, learners_));
  EXPECT_EQ(connections_.probes[20], 1);
  EXPECT_TRUE(fleet_.ask_again(20));
  EXPECT_FALSE(fleet_.ask_again(21));
  EXPECT_EQ(fleet_.look_at_broken(ms_), std::vector<int>{0});
  EXPECT_EQ(connections_.probes[20], 3);
  fleet_.look_at_broken(ms_ + 50);
  EXPECT_EQ(connections_.probes[20], 3) << "not each time";
  EXPECT_FALSE(fleet_.judge(0, false, ms_));
  const auto resumed = fleet_.resumed(20, ms_ + 300);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->text, "the connection to its agent was broken (connection reset) and taken up again after 300 ms");
  EXPECT_TRUE(fleet_.look_at_broken(ms_ + 400).empty());

  EXPECT_FALSE(fleet_.broken(20, "connection reset", false, ms_, learners_));
  connections_.verdicts[20] = Verdict::kWayBroken;
  const auto loss = fleet_.judge(0, false, ms_);
  ASSERT_TRUE(loss);
  EXPECT_TRUE(loss->takes_node());
  EXPECT_EQ(connections_.closed.count(20), 1U) << "from now on it is not taken up again";
  EXPECT_FALSE(fleet_.judge(0, false, ms_)) << "told once";
  EXPECT_FALSE(fleet_.resumed(20, ms_));
}

TEST_F(AgentFleetTest, NobodyWaitsForOneThatIsToEnd) {
  begin();
  const auto loss = fleet_.broken(20, "connection reset", /*ending=*/true, ms_, learners_);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->verdict, Verdict::kAgentKilled);
  EXPECT_TRUE(failure_of(*loss, "n1").asked);
  learners_[1].ended = true;
  EXPECT_FALSE(fleet_.broken(21, "connection reset", false, ms_, learners_));
  EXPECT_FALSE(fleet_.has(1));
}

TEST_F(AgentFleetTest, AKilledAgentThatMayLiveCutOffFencesToo) {
  begin();
  connections_.udp_way = Udp::kSilent;
  connections_.answered = ms_ - 100;
  connections_.verdicts[20] = Verdict::kAgentKilled;
  const auto loss = fleet_.broken(20, "connection closed", false, ms_, learners_);
  ASSERT_TRUE(loss);
  EXPECT_FALSE(loss->takes_node());
  EXPECT_EQ(loss->fence_until_ms, fence_until_ms(ms_, ms_ - 100));
}

TEST_F(AgentFleetTest, PingsGoToAllAndQuestionsToThoseThatDoNotAcknowledge) {
  begin();
  fleet_.tick(ms_ + 500, learners_);
  fleet_.tick(ms_ + 700, learners_);
  EXPECT_EQ(connections_.pings[20], 1);
  connections_.behind = {20, 21};
  fleet_.heard(1, ms_ + 1100);
  fleet_.tick(ms_ + 1200, learners_);
  EXPECT_EQ(connections_.probes[20], 1);
  EXPECT_EQ(connections_.probes.count(21), 0U) << "heard a moment ago";
}

TEST_F(AgentFleetTest, SilenceIsAskedAboutBeforeItCounts) {
  begin();
  fleet_.heard(1, ms_ + 250'000);
  EXPECT_TRUE(fleet_.silent(ms_ + 300'000, 300'000, learners_).empty());
  EXPECT_EQ(fleet_.silent(ms_ + 300'001, 300'000, learners_), std::vector<int>{0});
  fleet_.silence_is_asked_about();
  EXPECT_TRUE(fleet_.silent(ms_ + 300'001, 300'000, learners_).empty());
  fleet_.silence_is_known(/*suspended=*/true, ms_ + 301'000);
  EXPECT_TRUE(fleet_.silent(ms_ + 600'000, 300'000, learners_).empty());
  EXPECT_EQ(fleet_.silent(ms_ + 601'001, 300'000, learners_), (std::vector<int>{0, 1}));
  learners_[0].ended = true;
  EXPECT_EQ(fleet_.silent(ms_ + 601'001, 300'000, learners_), std::vector<int>{1});
}

TEST_F(AgentFleetTest, WhatAllAreToldGoesToNoneThatHasEnded) {
  begin();
  learners_[0].ended = true;
  fleet_.tell_all(encode(Kill{500}), learners_);
  EXPECT_TRUE(connections_.last_was(21, Kill{500}));
  EXPECT_TRUE(connections_.said[20].empty());
}

TEST_F(AgentFleetTest, OneThatBeginsAnewIsNotAwaitedByTheOthers) {
  begin();
  fleet_.begin_anew(1);
  EXPECT_FALSE(fleet_.has(1));
  EXPECT_TRUE(fleet_.rank_of(20).has_value());
  EXPECT_FALSE(fleet_.rank_of(21).has_value());
  // All had come, and that stays so: the loss of another agent is told at once.
  state_.phase = Phase::kRunning;
  fleet_.greet(22, 1, true, ms_);
  EXPECT_EQ(fleet_.rank_of(22), 1);
  EXPECT_TRUE(fleet_.has(1));
  EXPECT_TRUE(fleet_.begin(2, true, ms_)) << "both stay for the next attempt";
}

}  // namespace
}  // namespace dl::supervise
