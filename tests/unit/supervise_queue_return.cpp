// SPDX-License-Identifier: Apache-2.0
// The job's way back into the queue: what is recorded and said, in which order it is done, and where it is not. Slurm's
// commands are scripts; what Slurm makes of them is tried in tests/cluster.
#include "launcher/supervise/queue_return.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/awake_clock.h"
#include "common/base/clock.h"
#include "common/contract/exit_codes.h"
#include "common/contract/progress_page.h"
#include "launcher/supervise/succession.h"
#include "tests/unit/supervise_fake_commands.h"
#include "tests/unit/supervise_fake_connections.h"
#include "tests/unit/supervise_owner.h"

namespace dl::supervise {

using namespace protocol;

namespace {

// Job 7, whose two learners have saved and ended, since it was preempted. What is done is listed in done_, what Slurm
// is told in the file "told".
class QueueReturnTest : public OwnerTest {
 protected:
  QueueReturnTest() : OwnerTest(2) {}
  void SetUp() override {
    OwnerTest::SetUp();
    plan_.job_id = "7";
    plan_.under_slurm = true;
    plan_.data_program = commands_.folder() + "/bin/dl-data";
    commands_.write("dl-data", "exit 0");
    slurm("RUNNING");
    slurm_cli::JobInfo info;
    info.batch = info.requeue = true;
    slurm_.learn(info);
    state_.rules.under_slurm = true;
    state_.phase = Phase::kPuttingBack;
    begin();
  }
  void TearDown() override {
    state_.phase = Phase::kOver;
    OwnerTest::TearDown();
  }
  // Everything anew, by plan_.
  void begin() {
    begin_processing();
    stops_ = std::make_unique<StopController>(plan_, 0);
    attempt_ = Attempt(plan_, awake_ms(), unix_ms());
    judge_ = std::make_unique<EndJudge>(
        EndJudge::Sources{&attempt_, &state_, nodes_.get(), &slurm_, journal_.get(), &site_});
    results_ = std::make_unique<ResultKeeper>(
        &loop_, ResultKeeper::Owners{nodes_.get(), &state_, stops_.get(), &slurm_, journal_.get(), &voice_},
        record::JobDir(folder_), 1);
    QueueReturn::Calls calls;
    calls.happens = [this](const RunEvent& event) {
      if (const auto* back = std::get_if<BackInQueue>(&event))
        done_.emplace_back(back->done ? "it is back" : "it is not back");
      if (std::holds_alternative<Settled>(event)) done_.emplace_back("settled");
    };
    calls.leave = [this] { done_.emplace_back("companions are left"); };
    calls.close = [this] { done_.emplace_back("connections are closed"); };
    calls.fail = [this] { done_.emplace_back("it fails"); };
    queue_return_ = std::make_unique<QueueReturn>(
        &loop_,
        QueueReturn::Owners{judge_.get(), &attempt_, &state_, nodes_.get(), &agents_, &slurm_, &other_runs_,
                            results_.get(), &use_, journal_.get(), &voice_, nullptr},
        std::move(calls));
  }
  // What scontrol shows of the job; what it is told is written down.
  void slurm(const std::string& state, const std::string& refusal = {}) {
    commands_.write("scontrol",
                    "if [ \"$1\" = show ] && [ \"$2\" = job ]; then\n"
                    "  printf 'JobId=7 JobName=x\\n   UserId=ada(7) GroupId=ada(7) MCS_label=N/A\\n   JobState=" +
                        state +
                        " Reason=None Dependency=(null)\\n'\n  exit\nfi\n[ \"$1\" != show ] || exit 0\n"
                        "if [ $# -gt 0 ]; then echo \"$*\" >>told; else cat >>told; fi\n" +
                        (refusal.empty() ? "" : "echo '" + refusal + "' >&2; exit 1"));
  }
  std::string told() const { return commands_.file("told"); }
  // The attempt ends after a stop, for this cause.
  void stopped_by(StopCause cause) {
    state_.stop = Stop{};
    state_.stop->cause = cause;
    Progress progress;
    progress.state = ProgressPage::kTraining;
    progress.step = progress.saved_step = 40;
    attempt_.progressed(0, progress, awake_ms());
    for (const int rank : {0, 1}) attempt_.end_well(rank, kExitSaved, true, awake_ms());
    judge_->end(awake_ms(), unix_ms());
  }
  void run() { uv_run(&loop_, UV_RUN_DEFAULT); }
  record::Event last() const { return journal_->events().back(); }

  FakeCommands commands_;
  SiteConfig site_;
  FakeConnections connections_;
  AgentFleet agents_{&connections_, plan_, std::chrono::seconds(300)};
  std::vector<std::string> done_;
  SlurmJob slurm_{&loop_, "7", [](const slurm_cli::JobInfo& /*info*/) {}};
  OtherRuns other_runs_{&loop_, &state_, &slurm_, std::nullopt};
  UseKeeper use_{&loop_};
  std::unique_ptr<StopController> stops_;
  std::unique_ptr<EndJudge> judge_;
  std::unique_ptr<ResultKeeper> results_;
  std::unique_ptr<QueueReturn> queue_return_;
};

using Strings = std::vector<std::string>;

TEST_F(QueueReturnTest, TheReturnIsRecordedAndSaidBeforeConnectionsCloseAndSlurmIsAsked) {
  stopped_by(StopCause::kPreemption);
  queue_return_->perform(PutBack{});
  EXPECT_EQ(done_, (Strings{"companions are left", "connections are closed"}));
  EXPECT_EQ(journal_->memory().decided, decided_text(EndDecision::Action::kRequeue));
  EXPECT_EQ(last().state, record::JobState::kPending);
  EXPECT_EQ(last().step, 40);
  EXPECT_EQ(last().reason, judge_->decision().reason);
  EXPECT_EQ(said_, Strings{"dlrun: " + judge_->decision().reason + "; the job goes back into the queue"});
  EXPECT_EQ(told(), "");
  run();
  EXPECT_EQ(done_.back(), "it is back");
  EXPECT_EQ(told().rfind("requeue 7\nupdate JobId=7 StartTime=now", 0), 0U) << told();
}

TEST_F(QueueReturnTest, APausedJobIsHeld) {
  stopped_by(StopCause::kPause);
  queue_return_->perform(PutBack{/*hold=*/true});
  run();
  EXPECT_EQ(last().state, record::JobState::kHalted);
  EXPECT_EQ(said_, Strings{"dlrun: " + judge_->decision().reason + "; the job is held: dlctl resume 7"});
  EXPECT_EQ(told().rfind("requeuehold 7\n", 0), 0U) << told();
  queue_return_->perform(HoldJob{});
  run();
  EXPECT_NE(told().find("\nhold 7\n"), std::string::npos) << told();
}

TEST_F(QueueReturnTest, ANodeThatIsToBlameIsExcluded) {
  Failure failure;
  failure.kind = Failure::Kind::kData;
  failure.exit = 74;
  attempt_.fail(1, failure, awake_ms());
  for (const int rank : {0, 1}) attempt_.end(rank);
  judge_->end(awake_ms(), unix_ms());
  ASSERT_TRUE(judge_->decision().exclude_node);
  queue_return_->perform(PutBack{});
  run();
  EXPECT_EQ(journal_->memory().excluded, "n1");
  EXPECT_NE(said_.back().find("; the job goes back into the queue, without node n1"), std::string::npos);
  EXPECT_NE(told().find(" ExcNodeList=n1\n"), std::string::npos) << told();
}

TEST_F(QueueReturnTest, AJobThatSlurmDoesNotTakeBackFails) {
  slurm("RUNNING", "Requested operation is presently disabled");
  stopped_by(StopCause::kPreemption);
  queue_return_->perform(PutBack{});
  run();
  EXPECT_EQ(done_.back(), "it is not back");
  queue_return_->perform(PutBackFailed{});
  EXPECT_EQ(done_.back(), "it fails");
  EXPECT_EQ(journal_->memory().decided, decided_text(EndDecision::Action::kFail));
  EXPECT_EQ(last().state, record::JobState::kFailed);
  EXPECT_EQ(last().code, "S104");
  EXPECT_NE(last().reason.find("could not be put back: "), std::string::npos);
  EXPECT_NE(last().reason.find("presently disabled"), std::string::npos) << last().reason;
}

TEST_F(QueueReturnTest, AJobThatWasCancelledWhileItsResultsWereStoredDoesNotComeBack) {
  plan_.results.emplace();
  plan_.results->to = "/out/7";
  begin();
  stopped_by(StopCause::kPreemption);
  state_.stop->deadline_ms = unix_ms() + 60'000;
  slurm("CANCELLED");
  queue_return_->perform(PutBack{});
  run();
  EXPECT_EQ(done_, (Strings{"companions are left", "it is not back"}));
  EXPECT_EQ(told(), "");
  queue_return_->perform(PutBackFailed{});
  EXPECT_EQ(last().reason, "could not be put back: it was cancelled while its results were stored");
}

TEST_F(QueueReturnTest, AJobOfWhichSlurmSaysNothingElseComesBackAfterItsResultsAreStored) {
  plan_.results.emplace();
  plan_.results->to = "/out/7";
  for (const char* state : {"RUNNING", "no answer"}) {
    begin();
    done_.clear();
    stopped_by(StopCause::kPreemption);
    state_.stop->deadline_ms = unix_ms() + 60'000;
    slurm(state);
    if (state == std::string("no answer")) commands_.write("scontrol", "[ \"$1\" = show ] && exit 1; cat >>told");
    queue_return_->perform(PutBack{});
    run();
    EXPECT_EQ(done_.back(), "it is back") << state;
  }
}

TEST_F(QueueReturnTest, AJobThatSlurmHasPutBackItselfGetsItsBeginTimeOnce) {
  stopped_by(StopCause::kSlurmRequeue);
  queue_return_->perform(AlreadyBack{});
  EXPECT_EQ(done_, Strings{"companions are left"});
  EXPECT_EQ(last().state, record::JobState::kPending);
  run();
  EXPECT_EQ(done_.back(), "settled");
  EXPECT_EQ(told().rfind("update JobId=7 StartTime=now", 0), 0U) << told();
}

TEST_F(QueueReturnTest, TheBeginTimeIsKeptUntilSlurmShouldHaveEndedDlrun) {
  state_.rules.kill_wait_s = -13;
  queue_return_->perform(KeepStartTime{});
  run();
  EXPECT_EQ(done_, Strings{"settled"});
  EXPECT_EQ(told().rfind("update JobId=7 StartTime=now", 0), 0U) << told();
  queue_return_->perform(KeepStartTime{});
  state_.phase = Phase::kOver;
  run();
  EXPECT_EQ(done_, Strings{"settled"}) << "the run is over";
}

}  // namespace
}  // namespace dl::supervise
