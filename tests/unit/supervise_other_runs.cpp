// SPDX-License-Identifier: Apache-2.0
// How a run acts together with the job's others: what it passes on to them, what it hears, and how it waits for them.
// What Slurm says to the one that asks is tried in tests/cluster.
#include "launcher/supervise/other_runs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/awake_clock.h"
#include "launcher/runs/job_book.h"

namespace dl::supervise {
namespace {

// The other run is this process's parent.
class OtherRunsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(uv_loop_init(&loop_), 0);
    for (const runs::ProcessId& who : {own_, other_})
      change([&](runs::JobBook* book) {
        runs::BookedRun run;
        run.guard = who;
        book->runs.push_back(run);
      });
    state_.phase = Phase::kRunning;
  }
  void TearDown() override {
    state_.phase = Phase::kOver;
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    ::unlink(("/dev/shm/dl-job-" + std::to_string(::geteuid()) + "-" + number_).c_str());
  }
  template <typename Change>
  void change(Change what) {
    runs::BookFile(number_).change(0, std::chrono::seconds(10), [&](runs::JobBook* book) {
      what(book);
      return true;
    });
  }
  runs::JobBook book() {
    runs::JobBook found;
    change([&](runs::JobBook* book) { found = *book; });
    return found;
  }
  void stop(StopCause cause, std::optional<int64_t> deadline_ms = {}) {
    state_.stop = Stop{};
    state_.stop->cause = cause;
    state_.stop->who = "somebody";
    state_.stop->deadline_ms = deadline_ms;
  }
  void put_back(bool hold) {
    mine_.put_back(hold, "n2", "the node is bad", [this](const Status& outcome) { outcomes_.push_back(outcome); });
  }
  // Lets the loop turn until `done` or for a second.
  template <typename Done>
  void turn(Done done) {
    for (const int64_t since = awake_ms(); !done() && awake_ms() - since < 1000;) uv_run(&loop_, UV_RUN_ONCE);
  }
  bool has_arrived() { return book().runs[0].arrived; }

  const std::string number_ = "other-" + std::to_string(::getpid());
  const runs::ProcessId own_ = runs::process_of(::getpid()), other_ = runs::process_of(::getppid());
  uv_loop_t loop_{};
  RunState state_;
  SlurmJob slurm_{&loop_, "", {}};
  OtherRuns mine_{&loop_, &state_, &slurm_, runs::Siblings(runs::BookFile(number_), own_, 0)};
  std::vector<Status> outcomes_;
};

TEST_F(OtherRunsTest, AStopIsPassedOnUnlessSlurmTellsEachRunOfIt) {
  EXPECT_FALSE(mine_.look());
  stop(StopCause::kCancelled);
  mine_.look();
  EXPECT_FALSE(book().stop);
  stop(StopCause::kPause, 5000);
  EXPECT_FALSE(mine_.look()) << "this run knows of its own stop";
  ASSERT_TRUE(book().stop);
  EXPECT_EQ(book().stop->cause, stop_cause_key(StopCause::kPause));
  EXPECT_EQ(book().stop->who, "somebody");
  EXPECT_EQ(book().stop->deadline_ms, 5000);
}

TEST_F(OtherRunsTest, AStopThatAnotherRunHasAskedForIsHeardOnce) {
  change([](runs::JobBook* book) { book->stop = runs::BookedStop{"pause", "dlctl pause", 9000}; });
  const auto asked = mine_.look();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->cause, StopCause::kPause);
  EXPECT_EQ(asked->who, "dlctl pause");
  EXPECT_EQ(asked->deadline_ms, 9000);
  EXPECT_FALSE(mine_.look());
  change([](runs::JobBook* book) { book->stop = runs::BookedStop{"of a later version", "somebody", 8000}; });
  const auto later = mine_.look();
  ASSERT_TRUE(later);
  EXPECT_EQ(later->cause, StopCause::kTogether);
  state_.phase = Phase::kSettling;
  change([](runs::JobBook* book) { book->stop->deadline_ms = 7000; });
  EXPECT_FALSE(mine_.look()) << "it has ended";
}

TEST_F(OtherRunsTest, ARunThatIsReadyTellsTheOthersAndWaitsForWhatBecomesOfTheJob) {
  put_back(/*hold=*/false);
  turn([this] { return has_arrived(); });
  ASSERT_TRUE(has_arrived());
  EXPECT_EQ(book().runs[0].excluded, "n2");
  ASSERT_TRUE(book().stop) << "the others are to stop, too";
  EXPECT_EQ(book().stop->cause, runs::kTogetherCause);
  EXPECT_EQ(book().stop->who, "the node is bad");
  EXPECT_TRUE(outcomes_.empty()) << "the other one is saving";
  change([](runs::JobBook* book) { book->back = true; });
  turn([this] { return !outcomes_.empty(); });
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_TRUE(outcomes_[0]);
}

TEST_F(OtherRunsTest, SlurmsRefusalToAnotherRunIsThisOnesToo) {
  put_back(/*hold=*/true);
  turn([this] { return has_arrived(); });
  EXPECT_TRUE(book().runs[0].hold);
  EXPECT_EQ(book().stop->cause, runs::kPauseCause);
  change([](runs::JobBook* book) { book->refused = "Access/permission denied"; });
  turn([this] { return !outcomes_.empty(); });
  ASSERT_EQ(outcomes_.size(), 1U);
  ASSERT_FALSE(outcomes_[0]);
  EXPECT_EQ(outcomes_[0].error().text, "Access/permission denied");
}

TEST_F(OtherRunsTest, AfterTheEndOfTheRunNothingIsWaitedFor) {
  put_back(/*hold=*/false);
  turn([this] { return has_arrived(); });
  state_.phase = Phase::kOver;
  turn([this] { return uv_loop_alive(&loop_) == 0; });
  EXPECT_EQ(uv_loop_alive(&loop_), 0);
  EXPECT_TRUE(outcomes_.empty());
}

TEST_F(OtherRunsTest, ARunThatIsAloneHearsNothingAndKeepsTheBeginTime) {
  OtherRuns alone(&loop_, &state_, &slurm_, std::nullopt);
  stop(StopCause::kPause);
  EXPECT_FALSE(alone.look());
  EXPECT_TRUE(alone.keeps_begin_time());
  EXPECT_FALSE(book().stop);
}

}  // namespace
}  // namespace dl::supervise
