// SPDX-License-Identifier: Apache-2.0
// How a run grows in place: whether it may, which companion is new, when its learners make way for the larger attempt,
// and what the end of a companion means. Slurm is not there: a companion is what the test says of it, and its agents
// are processes that sleep.
#include "launcher/supervise/growth.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/awake_clock.h"
#include "common/base/clock.h"
#include "common/contract/progress_page.h"
#include "tests/unit/supervise_fake_connections.h"
#include "tests/unit/supervise_owner.h"

namespace dl::supervise {

using namespace protocol;

namespace {

using StateKind = CompanionState::Kind;
using Strings = std::vector<std::string>;

// Its companions are submitted when the test says so.
class FakeCompanions final : public CompanionJobs {
 public:
  void submit(const plan::LaunchPlan& /*plan*/, int nodes, const std::optional<OfferedNodes>& offered,
              std::function<void(const Result<std::string>&)> then) override {
    asked.push_back(nodes);
    offers += offered ? 1 : 0;
    then_ = std::move(then);
  }
  bool submitting() const override { return then_ != nullptr; }
  const Strings& held() const override { return held_; }
  void look(int64_t /*now_ms*/) override { ++looks; }
  void look_soon() override { ++soon; }
  void give_back(const std::string& job) override {
    held_.erase(std::remove(held_.begin(), held_.end(), job), held_.end());
    given_back.push_back(job);
  }
  void give_back_all() override { all_given_back = true; }

  void submitted(const Result<std::string>& job) {
    if (job) held_.push_back(*job);
    std::exchange(then_, nullptr)(job);
  }

  std::vector<int> asked;
  int offers = 0, looks = 0, soon = 0;
  Strings given_back;
  bool all_given_back = false;

 private:
  std::function<void(const Result<std::string>&)> then_;
  Strings held_;
};

// A run of two learners on n0 and n1, which may have four, and trains.
class GrowthTest : public OwnerTest {
 protected:
  GrowthTest() : OwnerTest(2) {}
  void SetUp() override {
    OwnerTest::SetUp();
    plan_.job_id = "7";
    plan_.under_slurm = true;
    plan_.asked = {2, 4};
    plan_.checkpoint.emplace();
    plan_.method = plan::LaunchMethod::kDirect;
    plan_.argv = {"sleep", "60"};
    begin();
  }
  void TearDown() override {
    agents_->kill_all(SIGKILL);
    for (int i = 0; agents_->any_running() && i < 4000; ++i, ::usleep(1000)) agents_->reap(i);
    OwnerTest::TearDown();
  }
  // Everything anew, by plan_.
  void begin(int run = 1) {
    begin_record();
    nodes_ = std::make_unique<NodePool>(
        plan_,
        [this](const Strings& gone, const plan::LaunchPlan& now) -> Result<plan::LaunchPlan> {
          left_out_ = gone;
          return now;
        },
        [](const std::vector<plan::Node>& more, const plan::LaunchPlan& now) -> Result<plan::LaunchPlan> {
          plan::LaunchPlan plan = now;
          for (const plan::Node& node : more) {
            if (node.gpus == 0) return Error{Errc::kConflict, "it has no GPUs"};
            plan::PlannedNode planned;
            planned.name = node.name;
            planned.companion = node.companion;
            plan::PlannedLearner learner;
            learner.rank = learner.node = static_cast<int>(plan.nodes.size());
            plan.nodes.push_back(planned);
            plan.learners.push_back(learner);
          }
          return plan;
        });
    agents_ = std::make_unique<AgentFleet>(&connections_, nodes_->plan(), std::chrono::seconds(300));
    Growth::Calls calls;
    calls.endpoint = [](const std::string& node) -> Result<std::string> { return "to-" + node + ":9"; };
    calls.expect = [this](size_t own) { expected_ = own; };
    calls.stop = [this](const StopAsked& stop) { stops_.push_back(stop); };
    calls.fail = [this](int rank, const Failure& failure) { failed_.emplace_back(rank, failure.text); };
    calls.look_whether_over = [this] { ++looked_whether_over_; };
    calls.settle = [this](const plan::LaunchPlan& plan) { settled_.push_back(plan.world_size()); };
    growth_ = std::make_unique<Growth>(Growth::Owners{&connections_, agents_.get(), nodes_.get(), &companions_,
                                                      &attempt_, &state_, journal_.get(), &voice_, &site_},
                                       std::move(calls), "secret", run);
    train();
  }
  void train() {
    attempt_ = Attempt(nodes_->plan(), awake_ms(), unix_ms());
    agents_->begin(static_cast<size_t>(nodes_->plan().world_size()), false, awake_ms());
    nodes_->begin_attempt();
    Progress progress;
    progress.state = ProgressPage::kTraining;
    attempt_.progressed(0, progress, awake_ms());
    state_.phase = Phase::kRunning;
    state_.learners_started = state_.all_started = true;
    state_.stop.reset();
  }
  static CompanionState says(StateKind kind, const std::string& job, const Strings& nodes = {}) {
    CompanionState state;
    state.kind = kind;
    state.why = kind == StateKind::kRuns ? "" : "its owner wants it";
    for (const std::string& name : nodes) {
      plan::Node node;
      node.name = name;
      node.companion = job;
      state.nodes.push_back(node);
    }
    return state;
  }
  void companion(const std::string& job) {
    growth_->asked(1, 1);
    companions_.submitted(job);
  }
  void runs(const std::string& job, const Strings& nodes) { growth_->heard(job, says(StateKind::kRuns, job, nodes)); }
  // An agent of the larger attempt says hello.
  bool comes(ConnectionId id, int rank, const std::string& error = {}) {
    Hello hello;
    hello.role = "agent";
    hello.rank = rank;
    hello.host = "host" + std::to_string(rank);
    hello.start = agents_->early_number();
    hello.error = error;
    return growth_->keeps(id, hello);
  }
  // Companion 41 with n2 and n3 runs, and the agents of all four learners come.
  void grow() {
    companion("41");
    runs("41", {"n2", "n3"});
    for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(comes(30 + static_cast<ConnectionId>(rank), rank));
  }
  // The same, and then the larger attempt begins.
  void grown() {
    grow();
    growth_->attempt_ends();
    growth_->take();
    growth_->adopt();
    train();
    said_.clear();
    stops_.clear();
    settled_.clear();
  }
  std::string noted() const { return journal_->events().empty() ? "" : journal_->events().back().reason; }

  SiteConfig site_;
  FakeConnections connections_;
  FakeCompanions companions_;
  std::unique_ptr<AgentFleet> agents_;
  std::unique_ptr<Growth> growth_;

  Strings left_out_;
  size_t expected_ = 0;
  std::vector<StopAsked> stops_;
  std::vector<std::pair<int, std::string>> failed_;
  int looked_whether_over_ = 0;
  std::vector<int> settled_;
};

TEST_F(GrowthTest, ACompanionIsSubmittedForWhoeverAsksWhoIsAnsweredWhenSlurmHasAnswered) {
  growth_->asked(5, 2);
  EXPECT_EQ(companions_.asked, std::vector<int>{2});
  EXPECT_EQ(companions_.offers, 0);
  EXPECT_TRUE(connections_.said[5].empty()) << "Slurm has not answered yet";
  growth_->asked(6, 1);
  EXPECT_EQ(companions_.asked.size(), 1U) << "one is being submitted";
  EXPECT_TRUE(connections_.last_was(6, Reply{false,
                                             "job 7 cannot have more nodes: it has asked for more nodes already; "
                                             "allowed: again, when its learners are on those"}));
  companions_.submitted(std::string("41"));
  EXPECT_TRUE(connections_.last_was(
      5, Reply{true, "companion 41 is submitted for 2 more nodes; the learners go on there, too, once it runs"}));
  EXPECT_EQ(said_, Strings{"dlrun: companion 41 is submitted for 2 more nodes"});
  EXPECT_EQ(noted(), "companion 41 is submitted for 2 more nodes");
  growth_->asked(6, 1);
  EXPECT_EQ(companions_.asked.size(), 1U) << "no learner is on its nodes yet";
  companions_.give_back("41");
  growth_->asked(6, 1);
  companions_.submitted(Error{Errc::kConflict, "Slurm refuses it"});
  EXPECT_TRUE(connections_.last_was(6, Reply{false, "no more nodes: Slurm refuses it"}));
}

TEST_F(GrowthTest, ARunThatStopsStartsOrCannotSaveIsGivenNoNodes) {
  state_.stop.emplace();
  growth_->asked(5, 1);
  state_.stop.reset();
  state_.phase = Phase::kStarting;
  growth_->asked(5, 1);
  state_.phase = Phase::kRunning;
  state_.all_started = false;
  growth_->asked(5, 1);
  state_.all_started = true;
  attempt_ = Attempt(plan_, awake_ms(), unix_ms());  // no learner has opened a checkpoint
  growth_->asked(5, 1);
  EXPECT_TRUE(companions_.asked.empty());
  EXPECT_EQ(connections_.said[5].size(), 4U);
}

TEST_F(GrowthTest, AnOfferOfDlpolicydIsTakenByTheFirstRunOfTheJobAlone) {
  growth_->perform(TakeOffer{{2, 100}});
  EXPECT_EQ(companions_.offers, 1);
  companions_.submitted(std::string("41"));
  EXPECT_EQ(said_, Strings{"dlrun: companion 41 is submitted for 2 free nodes, as dlpolicyd offers"});
  growth_->perform(TakeOffer{{1, 200}});
  EXPECT_EQ(companions_.offers, 1);
  EXPECT_EQ(noted().rfind("1 node that dlpolicyd offers cannot be used: it has asked for more", 0), 0U) << noted();
  companions_.give_back("41");
  begin(/*run=*/2);
  growth_->perform(TakeOffer{{2, 300}});
  EXPECT_EQ(companions_.offers, 1);
}

TEST_F(GrowthTest, LearnersMakeWayOnceAllAgentsOfTheLargerAttemptHaveCome) {
  companion("41");
  EXPECT_FALSE(growth_->under_way());
  runs("41", {"n2", "n3"});
  EXPECT_TRUE(growth_->under_way());
  EXPECT_TRUE(agents_->early_run());
  EXPECT_EQ(expected_, 2U + 4U + 2U + 4U) << "the agents and the servers of both attempts";
  Hello other;
  other.role = "agent";
  EXPECT_FALSE(growth_->keeps(29, other)) << "an agent of this attempt";
  other.start = agents_->early_number();
  ++other.version;
  EXPECT_FALSE(growth_->keeps(29, other)) << "one that cannot be understood";
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(comes(30 + static_cast<ConnectionId>(rank), rank));
  const int64_t now = awake_ms();
  growth_->look(now);
  growth_->look(now + 100);
  EXPECT_TRUE(stops_.empty());
  EXPECT_EQ(connections_.pings[30], 1) << "twice a second";
  EXPECT_TRUE(comes(33, 3));
  state_.phase = Phase::kStarting;
  growth_->look(now + 200);
  EXPECT_TRUE(stops_.empty()) << "the learners do not train";
  state_.phase = Phase::kRunning;
  growth_->look(now + 300);
  ASSERT_EQ(stops_.size(), 1U);
  EXPECT_EQ(stops_[0].cause, StopCause::kOtherNodes);
  EXPECT_EQ(stops_[0].who, "companion 41 runs");
  state_.stop.emplace();
  growth_->look(now + 400);
  EXPECT_EQ(stops_.size(), 1U) << "it is being done";

  growth_->attempt_ends();
  ASSERT_TRUE(nodes_->larger());
  EXPECT_FALSE(growth_->taken());
  EXPECT_EQ(growth_->take(), "to-n2:9");
  EXPECT_TRUE(growth_->taken());
  EXPECT_FALSE(attempt_.agents_may_stay()) << "they were started for the smaller plan";
  EXPECT_EQ(settled_, std::vector<int>{4});
  EXPECT_EQ(growth_->size_text(), "4 learners on n[0-3]");
  const auto came = growth_->adopt();
  ASSERT_EQ(came.size(), 4U);
  EXPECT_EQ(came[2].first, 32U);
  EXPECT_EQ(came[2].second.rank, 2);
  EXPECT_FALSE(growth_->under_way());
  EXPECT_FALSE(growth_->taken());
  EXPECT_EQ(agents_->start_number(), 1);
  EXPECT_FALSE(growth_->keeps(40, came[2].second)) << "agents of this start are those of the attempt now";
  EXPECT_TRUE(companions_.given_back.empty());
}

TEST_F(GrowthTest, WhereTheLargerAttemptCannotBeginTheNextOneStartsAgentsOfItsOwn) {
  growth_->not_begun();
  grow();
  growth_->not_begun();
  EXPECT_TRUE(growth_->under_way()) << "another attempt";
  growth_->attempt_ends();
  growth_->take();
  growth_->not_begun();
  EXPECT_FALSE(growth_->taken());
  EXPECT_FALSE(growth_->under_way());
  EXPECT_FALSE(agents_->early_run());
  for (ConnectionId id = 30; id < 34; ++id) EXPECT_FALSE(connections_.connected(id));
  EXPECT_TRUE(companions_.given_back.empty()) << "its nodes are in the plan";
  EXPECT_EQ(nodes_->plan().world_size(), 4);
}

TEST_F(GrowthTest, OfNodesThatDlpolicydOfferedItIsSaidHowTheRunGrew) {
  growth_->perform(TakeOffer{{2, 100}});
  companions_.submitted(std::string("41"));
  runs("41", {"n2", "n3"});
  for (int rank = 0; rank < 4; ++rank) comes(30 + static_cast<ConnectionId>(rank), rank);
  growth_->attempt_ends();
  growth_->take();
  EXPECT_EQ(growth_->size_text(), "4 learners on n[0-3]; grew from 2 to 4 learners: nodes n[2-3] were free");
  growth_->adopt();
  EXPECT_EQ(growth_->size_text(), "4 learners on n[0-3]") << "of that attempt alone";
}

TEST_F(GrowthTest, OneThatRunsIsNotUsedWhileAnotherOneIsNewOrLearnersDoNotTrain) {
  companion("41");
  state_.phase = Phase::kStarting;
  runs("41", {"n2"});
  EXPECT_FALSE(growth_->under_way());
  state_.phase = Phase::kRunning;
  runs("41", {"n2"});
  EXPECT_TRUE(growth_->under_way());
  const int number = agents_->early_number();
  runs("41", {"n2"});
  runs("42", {"n3"});
  EXPECT_EQ(agents_->early_number(), number) << "nothing is started twice";
  EXPECT_EQ(nodes_->larger()->world_size(), 3);
  for (const Phase phase : {Phase::kPuttingBack, Phase::kSettling, Phase::kOver}) {
    state_.phase = phase;
    growth_->heard("41", says(StateKind::kOver, "41"));
  }
  EXPECT_TRUE(companions_.given_back.empty()) << "all are given back when the run ends";
}

TEST_F(GrowthTest, ACompanionThatCannotBeUsedIsGivenBack) {
  companion("41");
  CompanionState bare = says(StateKind::kRuns, "41", {"n2"});
  bare.nodes[0].gpus = 0;
  growth_->heard("41", bare);
  EXPECT_FALSE(growth_->under_way());
  EXPECT_EQ(companions_.given_back, Strings{"41"});
  EXPECT_EQ(said_.back(), "dlrun: companion 41 is given back: it has no GPUs");

  companion("42");
  runs("42", {"n2"});
  EXPECT_TRUE(comes(30, 0));
  EXPECT_TRUE(comes(31, 2, "no PMIx")) << "it is one of those, and no other";
  EXPECT_EQ(said_.back(), "dlrun: companion 42 is given back: the PMIx server (dl-pmix) on host2: no PMIx");
  EXPECT_EQ(left_out_, Strings{"n2"}) << "no later plan has its nodes";
  EXPECT_EQ(connections_.closed, std::set<ConnectionId>{30});
  EXPECT_FALSE(growth_->broken(30, "closed")) << "of what was dropped nothing is known";
  EXPECT_FALSE(comes(32, 0)) << "it comes too late";
  EXPECT_EQ(settled_.back(), 2);

  companion("43");
  runs("43", {"n2"});
  EXPECT_TRUE(comes(40, 1));
  EXPECT_FALSE(growth_->broken(7, "closed")) << "an agent of this attempt";
  EXPECT_TRUE(growth_->broken(40, "connection reset"));
  EXPECT_EQ(said_.back(), "dlrun: companion 43 is given back: its agent on host1 has ended: connection reset");
  EXPECT_EQ(companions_.given_back, (Strings{"41", "42", "43"}));
}

TEST_F(GrowthTest, AgentsThatDoNotComeAreNotAwaitedForEver) {
  companion("41");
  runs("41", {"n2"});
  growth_->look(awake_ms() + 1000 * site_.agent_timeout.count() - 5000);
  EXPECT_TRUE(companions_.given_back.empty());
  growth_->look(awake_ms() + 1000 * site_.agent_timeout.count() + 5000);
  EXPECT_EQ(said_.back(), "dlrun: companion 41 is given back: its agents have not connected");

  plan_.argv = {"true"};
  begin();
  companion("42");
  runs("42", {"n2"});
  for (int i = 0; agents_->early_run() && i < 4000; ++i, ::usleep(1000)) agents_->reap(i);
  growth_->look(awake_ms());
  EXPECT_EQ(said_.back(), "dlrun: companion 42 is given back: srun could not start its agents");
  growth_->look(awake_ms());
  EXPECT_EQ(companions_.given_back, (Strings{"41", "42"})) << "once each";
}

TEST_F(GrowthTest, AnAttemptThatEndsBeforeIsFollowedByOneOfTheSameSize) {
  growth_->attempt_ends();
  companion("41");
  runs("41", {"n2"});
  comes(30, 0);
  growth_->attempt_ends();
  EXPECT_FALSE(nodes_->larger());
  EXPECT_EQ(said_.back(), "dlrun: companion 41 is given back: the learners ended before its agents had come");

  grow();
  nodes_->lose(1);
  growth_->attempt_ends();
  EXPECT_FALSE(nodes_->larger());
  EXPECT_EQ(said_.back(), "dlrun: companion 41 has to wait: the job has lost other nodes");
  EXPECT_EQ(companions_.given_back, Strings{"41"}) << "only the first time: it is used later";
}

TEST_F(GrowthTest, LearnersSaveAndGoOnWithoutACompanionThatEnds) {
  grown();
  CompanionState ends = says(StateKind::kEnds, "41");
  ends.deadline_ms = 5000;
  growth_->heard("41", ends);
  ASSERT_EQ(stops_.size(), 1U);
  EXPECT_EQ(stops_[0].cause, StopCause::kOtherNodes);
  EXPECT_EQ(stops_[0].deadline_ms, 5000);
  EXPECT_EQ(stops_[0].who, "companion 41: its owner wants it");
  EXPECT_TRUE(nodes_->any_lost_of("41"));
  growth_->heard("41", ends);
  EXPECT_EQ(stops_.size(), 1U) << "it is known";
  EXPECT_TRUE(failed_.empty()) << "its learners may still save";
  EXPECT_TRUE(companions_.given_back.empty()) << "that follows when learners have ended";

  state_.phase = Phase::kStopping;
  attempt_.end(2);
  growth_->heard("41", says(StateKind::kOver, "41"));
  ASSERT_EQ(failed_.size(), 1U) << "learner 2 had ended";
  EXPECT_EQ(failed_[0], (std::pair<int, std::string>(3, "companion 41: its owner wants it")));
  EXPECT_TRUE(attempt_.learner(3).ended);
  EXPECT_TRUE(attempt_.agent_lost());
  EXPECT_EQ(looked_whether_over_, 1);
  growth_->heard("41", says(StateKind::kOver, "41"));
  EXPECT_EQ(failed_.size(), 1U);
}

TEST_F(GrowthTest, WhereLearnersStopAlreadyOnlyADeadlineIsNews) {
  grown();
  state_.stop.emplace();
  state_.phase = Phase::kStopping;
  growth_->heard("41", says(StateKind::kEnds, "41"));
  EXPECT_TRUE(stops_.empty());
  nodes_->begin_attempt();
  CompanionState ends = says(StateKind::kEnds, "41");
  ends.deadline_ms = 5000;
  growth_->heard("41", ends);
  EXPECT_EQ(stops_.size(), 1U);
  nodes_->begin_attempt();
  state_.phase = Phase::kJudging;
  growth_->heard("41", says(StateKind::kOver, "41"));
  EXPECT_EQ(stops_.size(), 1U);
  EXPECT_TRUE(failed_.empty()) << "no learner runs any more";
}

TEST_F(GrowthTest, TheEndOfOneThatIsNotUsedChangesNothingForLearners) {
  companion("41");
  growth_->heard("41", says(StateKind::kOver, "41"));
  EXPECT_EQ(said_.back(), "dlrun: companion 41 is given up: its owner wants it");
  companion("42");
  runs("42", {"n2"});
  growth_->heard("42", says(StateKind::kEnds, "42"));
  EXPECT_EQ(said_.back(), "dlrun: companion 42 is given back: its owner wants it");
  EXPECT_EQ(companions_.given_back, (Strings{"41", "42"}));
  EXPECT_TRUE(stops_.empty());
}

TEST_F(GrowthTest, ASignalToAnAgentOfACompanionIsAboutThatAlone) {
  grown();
  EXPECT_FALSE(growth_->noticed(0, SIGTERM));
  EXPECT_EQ(companions_.soon, 0);
  EXPECT_TRUE(growth_->noticed(2, SIGUSR2));
  EXPECT_EQ(companions_.soon, 1) << "Slurm says what it means";
  EXPECT_TRUE(stops_.empty());
  state_.rules.kill_wait_s = 30;
  EXPECT_TRUE(growth_->noticed(2, SIGTERM));
  EXPECT_TRUE(growth_->noticed(3, SIGTERM));
  ASSERT_EQ(stops_.size(), 1U) << "two agents, one end";
  EXPECT_EQ(stops_[0].who, "companion 41: Slurm ends it");
  EXPECT_NEAR(static_cast<double>(*stops_[0].deadline_ms - unix_ms()), 30'000, 5000);
}

TEST_F(GrowthTest, WhenTheRunEndsAllAreGivenBackAndTheNewOneIsDropped) {
  companion("41");
  runs("41", {"n2"});
  growth_->run_ends();
  EXPECT_EQ(said_.back(), "dlrun: companion 41 is given back: the job ends");
  EXPECT_EQ(companions_.given_back, Strings{"41"});
  EXPECT_TRUE(companions_.all_given_back);
  EXPECT_FALSE(agents_->early_run());
  growth_->look(awake_ms());
  EXPECT_GT(companions_.looks, 0) << "what was given back is still looked after";
  EXPECT_TRUE(stops_.empty());
}

}  // namespace
}  // namespace dl::supervise
