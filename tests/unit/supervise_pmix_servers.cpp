// SPDX-License-Identifier: Apache-2.0
// The PMIx servers of an attempt: who may come, what learners get of them, and what the loss of one means.
#include "launcher/supervise/pmix_servers.h"

#include <gtest/gtest.h>

#include "tests/unit/supervise_fake_connections.h"

namespace dl::supervise {
namespace {

using namespace protocol;

// Two nodes with two learners each; connections 11 and 12 are those of their servers.
class PmixServersTest : public testing::Test {
 protected:
  void SetUp() override {
    plan_.pmix_server = "/opt/dl-pmix";
    for (int rank = 0; rank < 4; ++rank) {
      plan::PlannedLearner learner;
      learner.rank = rank;
      learner.node = rank / 2;
      learner.local_rank = rank % 2;
      plan_.learners.push_back(learner);
    }
    for (const char* name : {"n1", "n2"}) {
      plan::PlannedNode node;
      node.name = name;
      plan_.nodes.push_back(node);
    }
    learners_.resize(4);
    servers_.open(plan_, "dl.7.1.secret");
  }
  PmixServers::News hear(ConnectionId id, const pmix::PmixMessage& message) {
    return servers_.heard(id, pmix::encode(message), now());
  }
  PmixServers::Now now() const { return {ms_, phase_, learners_}; }
  void come() {
    ASSERT_TRUE(servers_.greet(11, 0, true));
    ASSERT_TRUE(servers_.greet(12, 2, true));
    hear(11, pmix::Ready{"4.2", {{{"PMIX_RANK", "0"}}, {{"PMIX_RANK", "1"}}}});
    hear(12, pmix::Ready{"4.2", {{{"PMIX_RANK", "2"}}, {{"PMIX_RANK", "3"}}}});
  }

  plan::LaunchPlan plan_;
  FakeConnections connections_;
  PmixServers servers_{&connections_};
  std::vector<Learner> learners_;
  Phase phase_ = Phase::kStarting;
  int64_t ms_ = 1000;
};

TEST_F(PmixServersTest, LearnersStartWhenAllServersAreReadyEachWithItsEnvironment) {
  EXPECT_FALSE(servers_.greet(10, 4, true)) << "no such learner";
  ASSERT_TRUE(servers_.greet(11, 0, true));
  EXPECT_FALSE(servers_.greet(13, 1, true)) << "its node has one";
  EXPECT_TRUE(connections_.has_session(11));
  EXPECT_EQ(connections_.said[11].size(), 1U) << "the job";
  hear(11, pmix::Ready{"4.2", {{{"PMIX_RANK", "0"}}, {{"PMIX_RANK", "1"}}}});
  EXPECT_FALSE(servers_.ready());
  ASSERT_TRUE(servers_.greet(12, 3, false));
  hear(12, pmix::Ready{"4.2", {{{"PMIX_RANK", "2"}}, {{"PMIX_RANK", "3"}}}});
  EXPECT_TRUE(servers_.ready());
  Start start;
  servers_.add_environment(3, &start);
  EXPECT_EQ(start.forced["PMIX_RANK"], "3");
}

TEST_F(PmixServersTest, ServersOfAPoolAndNodesOfTheirOwnAreNoneOfTheNamespace) {
  // The node n1 gets two places after the learners 0 and 1, n2 has places alone, n3 a learner.
  plan::LaunchPlan plan;
  plan.pmix_server = "/opt/dl-pmix";
  plan.pool = ServerRange{1, 4, true};
  plan.servers = 4;
  int rank = 0;
  const std::vector<std::pair<int, int>> places = {{0, 0}, {0, 1}, {2, 0}, {0, 2}, {0, 3}, {1, 0}, {1, 1}};
  for (const auto& [node, local_rank] : places) {
    plan::PlannedLearner learner;
    learner.rank = rank++;
    learner.node = node;
    learner.local_rank = local_rank;
    plan.learners.push_back(learner);
  }
  for (const char* name : {"n1", "n2", "n3"}) {
    plan::PlannedNode node;
    node.name = name;
    plan.nodes.push_back(node);
  }
  learners_.resize(7);
  servers_.open(plan, "dl.7.2.secret");
  EXPECT_FALSE(servers_.greet(13, 5, true)) << "n2 has no learner";
  ASSERT_TRUE(servers_.greet(11, 0, true));
  ASSERT_TRUE(servers_.greet(12, 2, true));
  pmix::Job job;
  job.space = "dl.7.2.secret";
  job.nodes = {"n1", "n3"};
  job.ranks = {{0, 1}, {2}};
  job.node = 1;
  EXPECT_TRUE(connections_.last_was(12, Pmix{pmix::encode(job)}));
  hear(11, pmix::Ready{"4.2", {{{"PMIX_RANK", "0"}}, {{"PMIX_RANK", "1"}}}});
  hear(12, pmix::Ready{"4.2", {{{"PMIX_RANK", "2"}}}});
  EXPECT_TRUE(servers_.ready());
  for (int one = 0; one < 7; ++one) {
    Start start;
    servers_.add_environment(one, &start);
    EXPECT_EQ(start.forced["PMIX_RANK"], one < 3 ? std::to_string(one) : "");
  }
  EXPECT_FALSE(servers_.tell_of_end(4, true, 1)) << "learners hear of a server by its pool";
  Failure failure;
  EXPECT_EQ(servers_.explain(6, &failure), "");
}

TEST_F(PmixServersTest, OneThatDoesNotComeIsNotWaitedForWithoutEnd) {
  ASSERT_TRUE(servers_.greet(12, 2, true));
  hear(12, pmix::Ready{"4.2", {}});
  EXPECT_EQ(servers_.tick(now(), false).not_started, "") << "agents are still on their way";
  EXPECT_EQ(servers_.tick(now(), true).not_started, "");
  ms_ += 30'001;
  EXPECT_EQ(servers_.tick(now(), true).not_started, "the PMIx server (dl-pmix) on n1 has not come within 30 s");
}

TEST_F(PmixServersTest, OneThatIsKilledBeforeAllAgentsHaveComeIsReportedOnceTheyHave) {
  come();
  learners_[0].said_hello = true;
  EXPECT_EQ(servers_.broken(11, "connection closed", now()).not_started, "");
  connections_.verdicts[11] = Verdict::kAgentKilled;
  EXPECT_EQ(servers_.tick(now(), false).not_started, "") << "srun may be ending what it could not start on n2";
  EXPECT_FALSE(servers_.knows(11) || servers_.ready());
  EXPECT_EQ(servers_.tick(now(), true).not_started, "the PMIx server (dl-pmix) on n1 was killed");
  // With other agents all is forgotten.
  servers_.open(plan_, "dl.7.2.secret");
  come();
  EXPECT_TRUE(servers_.ready());
  EXPECT_EQ(servers_.tick(now(), true).not_started, "");
  for (Learner& learner : learners_) learner.said_hello = true;
  connections_.sessions.erase(12);
  EXPECT_EQ(servers_.broken(12, "connection closed", now()).not_started, "the PMIx server (dl-pmix) on n2 was killed");
}

TEST_F(PmixServersTest, WithoutAnyNothingIsWaitedForAndNobodyTold) {
  plan_.pmix_server.clear();
  servers_.open(plan_, "dl.7.2.secret");
  EXPECT_TRUE(servers_.ready());
  EXPECT_FALSE(servers_.greet(11, 0, true));
  EXPECT_FALSE(servers_.tell_of_end(0, true, 1));
  Failure failure;
  failure.last_lines = {"PMIX ERROR"};
  EXPECT_EQ(servers_.explain(0, &failure), "");
}

TEST_F(PmixServersTest, ALostOneEndsALearnerThatHasUsedItAndNoOther) {
  come();
  phase_ = Phase::kRunning;
  EXPECT_EQ(hear(11, pmix::Client{1, true}).lines, std::vector<std::string>{"learners are served by dl-pmix (4.2)"});
  EXPECT_TRUE(hear(11, pmix::Client{1, true}).lines.empty()) << "said once";
  EXPECT_TRUE(hear(11, pmix::Client{3, true}).lines.empty()) << "not its learner";
  // Nobody has come to the other.
  connections_.sessions.erase(12);
  const PmixServers::News unused = servers_.broken(12, "connection closed", now());
  EXPECT_FALSE(unused.lost);
  ASSERT_EQ(unused.lines.size(), 1U);
  EXPECT_EQ(unused.lines[0], "warning: the PMIx server (dl-pmix) on n2 was killed; no learner there has used it");
  EXPECT_FALSE(servers_.knows(12));

  EXPECT_FALSE(servers_.broken(11, "connection timed out", now()).lost) << "it has a session, and may come again";
  EXPECT_EQ(connections_.probes[11], 1);
  EXPECT_FALSE(servers_.tick(now(), true).lost);
  connections_.verdicts[11] = Verdict::kNodeLost;
  const PmixServers::News lost = servers_.tick(now(), true);
  ASSERT_TRUE(lost.lost);
  EXPECT_EQ(lost.lost->first, 1);
  EXPECT_EQ(lost.lost->second.text, "the PMIx server (dl-pmix) on n1 does not answer");
}

TEST_F(PmixServersTest, AConnectionThatIsTakenUpAgainIsNotWaitedForAnyMore) {
  come();
  servers_.broken(11, "connection closed", now());
  servers_.resumed(11);
  connections_.verdicts[11] = Verdict::kNodeLost;
  EXPECT_EQ(servers_.tick(now(), true).not_started, "");
}

TEST_F(PmixServersTest, OthersHearOfALossBeforeTheyAreEnded) {
  come();
  phase_ = Phase::kRunning;
  EXPECT_FALSE(servers_.tell_of_end(0, true, 9)) << "no learner has come to PMIx: nobody would hear it";
  hear(12, pmix::Client{2, true});
  EXPECT_TRUE(servers_.tell_of_end(0, true, 9));
  EXPECT_TRUE(connections_.last_was(12, Pmix{pmix::encode(pmix::Lost{0, 9})}));
  servers_.end_after_notice(ms_);
  EXPECT_FALSE(servers_.tick(now(), true).end_learners_ms);
  ms_ += 100;
  EXPECT_EQ(servers_.tick(now(), true).end_learners_ms, 400);
  EXPECT_FALSE(servers_.tick(now(), true).end_learners_ms) << "once";
}

TEST_F(PmixServersTest, WhoCallsMpiAbortFailsWithItsCodeAlsoWhereItDoesNotEnd) {
  come();
  phase_ = Phase::kRunning;
  hear(11, pmix::Abort{1, 1, 3, ""});
  EXPECT_TRUE(servers_.has_aborted(1));
  EXPECT_FALSE(servers_.tick(now(), true).lost);
  ms_ += 2000;
  const PmixServers::News news = servers_.tick(now(), true);
  ASSERT_TRUE(news.lost);
  EXPECT_EQ(news.lost->first, 1);
  EXPECT_EQ(news.lost->second.exit, 3);
  EXPECT_EQ(news.lost->second.exception, "MPI_Abort with code 3");
  learners_[1].ended = true;
  EXPECT_FALSE(servers_.tick(now(), true).lost);
}

TEST_F(PmixServersTest, AnotherAttemptHasServersOfItsOwn) {
  come();
  hear(11, pmix::Abort{1, 1, 3, ""});
  servers_.open(plan_, "dl.7.2.secret");
  EXPECT_EQ(connections_.closed, (std::set<ConnectionId>{11, 12}));
  EXPECT_FALSE(servers_.knows(11));
  EXPECT_FALSE(servers_.ready());
  EXPECT_FALSE(servers_.has_aborted(1));
}

TEST_F(PmixServersTest, ALearnerThatComplainsOfPmixAndNeverCameIsExplained) {
  come();
  Failure failure;
  failure.exit = 1;
  failure.last_lines = {"*** An error occurred in MPI_Init"};
  EXPECT_NE(servers_.explain(0, &failure).find("has not reached the PMIx server of its node (4.2)"), std::string::npos);
  hear(11, pmix::Client{0, true});
  EXPECT_EQ(servers_.explain(0, &failure), "");
}

}  // namespace
}  // namespace dl::supervise
