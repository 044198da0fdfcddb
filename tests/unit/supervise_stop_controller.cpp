// SPDX-License-Identifier: Apache-2.0
// A run's own wishes to stop or to save: before the time limit, each interval, and by request.json.
#include "launcher/supervise/stop_controller.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/atomic_file.h"

namespace dl::supervise {
namespace {

constexpr int64_t kBegin = 1'789'000'000'000;  // Unix time
constexpr int64_t kHour = 3'600'000;

plan::LaunchPlan plan_of_an_hour() {
  plan::LaunchPlan plan;
  plan.under_slurm = true;
  plan.end_time_s = (kBegin + kHour) / 1000;
  plan.learners.resize(1);
  plan.nodes.resize(1);
  return plan;
}

slurm_cli::JobInfo ends_at(int64_t unix_ms) {
  slurm_cli::JobInfo job;
  job.end_time = unix_ms / 1000;
  return job;
}

TEST(StopControllerTest, BeforeTheTimeLimitSlurmIsAskedWhetherItHolds) {
  StopController stops(plan_of_an_hour(), 120'000);
  stops.run_begins(kBegin, false);
  EXPECT_FALSE(stops.must_ask_about_limit(kBegin + kHour - 120'001, {}));
  ASSERT_TRUE(stops.must_ask_about_limit(kBegin + kHour - 120'000, {}));
  EXPECT_FALSE(stops.must_ask_about_limit(kBegin + kHour - 119'000, {})) << "one question at a time";
  // It was raised.
  const auto raised = ends_at(kBegin + 2 * kHour);
  EXPECT_FALSE(stops.limit_known(raised, raised, kBegin + kHour - 118'000, {}));
  EXPECT_FALSE(stops.must_ask_about_limit(kBegin + kHour, {}));
  ASSERT_TRUE(stops.must_ask_about_limit(kBegin + 2 * kHour - 120'000, {}));
  // Slurm does not answer: what it said before holds.
  const auto stop = stops.limit_known({}, raised, kBegin + 2 * kHour - 115'000, {});
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->cause, StopCause::kTimeLimit);
  EXPECT_EQ(stop->deadline_ms, kBegin + 2 * kHour);
}

TEST(StopControllerTest, ASlurmThatDoesNotAnswerInTimeIsNotWaitedFor) {
  StopController stops(plan_of_an_hour(), 15'000);
  stops.run_begins(kBegin, false);
  EXPECT_FALSE(stops.limit_unanswered({}, kBegin + kHour, {})) << "nothing was asked";
  ASSERT_TRUE(stops.must_ask_about_limit(kBegin + kHour - 15'000, {}));
  EXPECT_FALSE(stops.limit_unanswered({}, kBegin + kHour - 14'000, {}));
  const auto stop = stops.limit_unanswered({}, kBegin + kHour - 13'000, {});
  ASSERT_TRUE(stop) << "scontrol may take 20 s, and then nothing could be saved";
  EXPECT_EQ(stop->cause, StopCause::kTimeLimit);
  EXPECT_EQ(stop->deadline_ms, kBegin + kHour);
}

TEST(StopControllerTest, ASignalThatWouldEndTheProgramIsTheEndOfTheTime) {
  using Use = StopController::OwnSignalUse;
  StopController stops(plan_of_an_hour(), 120'000);
  stops.run_begins(kBegin, false);
  stops.own_signal_is(Use::kStopsBefore, 600);
  // Slurm may send it half a minute early.
  const int64_t comes = kBegin + kHour - 635'000;
  EXPECT_FALSE(stops.must_ask_about_limit(comes - 120'001, {}));
  ASSERT_TRUE(stops.must_ask_about_limit(comes - 120'000, {}));
  const auto job = ends_at(kBegin + kHour);
  const auto stop = stops.limit_known(job, job, comes - 119'000, {});
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->cause, StopCause::kTimeLimit);
  EXPECT_EQ(stop->deadline_ms, comes);
  EXPECT_EQ(stop->who, "the signal of --signal is near");
  // One that is caught is not.
  StopController caught(plan_of_an_hour(), 120'000);
  caught.run_begins(kBegin, false);
  caught.own_signal_is(Use::kSavesBefore, 600);
  EXPECT_FALSE(caught.must_ask_about_limit(comes, {}));
  EXPECT_TRUE(caught.must_ask_about_limit(kBegin + kHour - 120'000, {}));
}

TEST(StopControllerTest, ASignalAsEarlyAsTheStartLeavesAQuarterOfTheTime) {
  StopController stops(plan_of_an_hour(), 0);
  stops.run_begins(kBegin, false);
  stops.own_signal_is(StopController::OwnSignalUse::kStopsBefore, 3600);
  EXPECT_FALSE(stops.must_ask_about_limit(kBegin + kHour / 4 - 1, {}));
  EXPECT_TRUE(stops.must_ask_about_limit(kBegin + kHour / 4, {}));
}

TEST(StopControllerTest, TheEndOfAPreemptedJobIsNoTimeLimit) {
  StopController stops(plan_of_an_hour(), 120'000);
  stops.run_begins(kBegin, false);
  ASSERT_TRUE(stops.must_ask_about_limit(kBegin + kHour, {}));
  auto job = ends_at(kBegin + kHour);
  job.preempt_time = kBegin / 1000;
  const auto stop = stops.limit_known(job, job, kBegin + kHour, {});
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->cause, StopCause::kPreemption);
}

TEST(StopControllerTest, WithoutALimitOrWithoutSlurmNobodyIsAsked) {
  plan::LaunchPlan plan = plan_of_an_hour();
  StopController unlimited(plan, 120'000);
  unlimited.limit_is({});
  EXPECT_FALSE(unlimited.must_ask_about_limit(kBegin + 9 * kHour, {}));
  plan.under_slurm = false;
  StopController local(plan, 120'000);
  EXPECT_FALSE(local.must_ask_about_limit(kBegin + 9 * kHour, {}));
  // The limit was taken away while it was near.
  StopController stops(plan_of_an_hour(), 120'000);
  ASSERT_TRUE(stops.must_ask_about_limit(kBegin + kHour, {}));
  EXPECT_FALSE(stops.limit_known(slurm_cli::JobInfo{}, {}, kBegin + kHour, {}));
}

TEST(StopControllerTest, ASaveIsDueEachIntervalWhateverCameOfTheLast) {
  plan::LaunchPlan plan = plan_of_an_hour();
  Attempt attempt(plan, 1000, kBegin);
  attempt.all_run(1000);
  EXPECT_FALSE(StopController(plan, 0).save_due(&attempt, {}, 90'000'000, kBegin)) << "it has no checkpoint directory";
  plan.checkpoint.emplace();
  EXPECT_FALSE(StopController(plan, 0).save_due(&attempt, {}, 90'000'000, kBegin)) << "it was not asked for";
  plan.checkpoint->every = std::chrono::seconds(10);
  const StopController stops(plan, 0);
  EXPECT_FALSE(stops.save_due(&attempt, {}, 10'999, kBegin));
  EXPECT_TRUE(stops.save_due(&attempt, {}, 11'000, kBegin));
  EXPECT_FALSE(stops.save_due(&attempt, {}, 20'999, kBegin));
  EXPECT_TRUE(stops.save_due(&attempt, {}, 21'000, kBegin));
}

TEST(StopControllerTest, SavesStayNewBeforeASignalThatSomebodyActsOn) {
  plan::LaunchPlan plan = plan_of_an_hour();
  plan.checkpoint = CheckpointSpec{};
  Attempt attempt(plan, 0, kBegin);
  attempt.all_run(1000);
  StopController stops(plan, 0);
  stops.run_begins(kBegin, false);
  stops.own_signal_is(StopController::OwnSignalUse::kSavesBefore, 60);
  const int64_t comes = kBegin + kHour - 95'000;
  EXPECT_FALSE(stops.save_due(&attempt, {}, 3'000'000, comes - 1));
  EXPECT_TRUE(stops.save_due(&attempt, {}, 3'000'100, comes));
  EXPECT_FALSE(stops.save_due(&attempt, {}, 3'010'000, comes + 9'900));
  EXPECT_TRUE(stops.save_due(&attempt, {}, 3'010'100, comes + 10'000));
}

TEST(StopControllerTest, EveryAnswerIsOne) {
  using Kind = StopAnswer::Kind;
  EXPECT_TRUE(reply_to(Kind::kTaken).ok && reply_to(Kind::kLater).ok);
  EXPECT_EQ(reply_to(Kind::kAlready).text, "the job is being stopped already");
  EXPECT_EQ(reply_to(Kind::kTooLate).text, "the job is ending already");
}

class RequestFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-request-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
    path_ = root_ + "/request.json";
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + root_ + "'").c_str()), 0); }
  bool is_there() const { return ::access(path_.c_str(), F_OK) == 0; }
  std::string root_, path_;
  StopController stops_{plan_of_an_hour(), 0};
};

TEST_F(RequestFileTest, APauseIsTakenOnce) {
  EXPECT_FALSE(*stops_.take_request(path_));
  ASSERT_TRUE(replace_file(path_, R"({"action":"pause","reason":"demo"})"));
  const auto taken = stops_.take_request(path_);
  ASSERT_TRUE(taken && *taken);
  EXPECT_EQ((*taken)->cause, StopCause::kPause);
  EXPECT_EQ((*taken)->who, "demo");
  EXPECT_FALSE(is_there());
}

TEST_F(RequestFileTest, WhatIsNoRequestIsRefusedAndRemoved) {
  for (const char* text : {"pause", R"({"action":"save"})", "{}"}) {
    ASSERT_TRUE(replace_file(path_, text));
    EXPECT_FALSE(stops_.take_request(path_)) << text;
    EXPECT_FALSE(is_there());
  }
}

class OldRequestTest : public RequestFileTest {
 protected:
  void write_at(int64_t unix_ms) {
    ASSERT_TRUE(replace_file(path_, R"({"action":"pause"})"));
    const timespec at{static_cast<time_t>(unix_ms / 1000), 0};
    const timespec times[] = {at, at};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  }
  bool obeys(StopController* stops) {
    const auto taken = stops->take_request(path_);
    return taken && *taken;
  }
};

TEST_F(OldRequestTest, OneOfAnEarlierRunIsRemovedAndNotObeyed) {
  plan::LaunchPlan plan = plan_of_an_hour();
  plan.under_slurm = false;
  StopController stops(plan, 0);
  stops.run_begins(kBegin, false);
  write_at(kBegin - 10'000);
  const auto taken = stops.take_request(path_);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().text.find("older than this run"), std::string::npos);
  EXPECT_FALSE(is_there());
  write_at(kBegin);
  EXPECT_TRUE(obeys(&stops));
}

TEST_F(OldRequestTest, UnderSlurmARunBeginsWithTheJobsStart) {
  StopController stops(plan_of_an_hour(), 0);
  stops.run_begins(kBegin, false);
  write_at(kBegin - 60'000);
  const auto unknown = stops.take_request(path_);
  EXPECT_TRUE(unknown && !*unknown && is_there()) << "nothing is known of the job's start yet";
  slurm_cli::JobInfo job;
  job.start_time = kBegin / 1000 - 120;
  stops.job_is_known(job);
  EXPECT_TRUE(obeys(&stops)) << "dlrun came two minutes after the job, and dlctl in between";
  write_at(kBegin - 130'000);
  EXPECT_FALSE(obeys(&stops));
  EXPECT_FALSE(is_there());
  StopController unanswered(plan_of_an_hour(), 0);
  unanswered.run_begins(kBegin, false);
  unanswered.job_is_known({});
  write_at(kBegin - 10'000);
  EXPECT_FALSE(obeys(&unanswered));
}

TEST_F(OldRequestTest, WhatADlrunThatDiedWasAskedItsSuccessorDoes) {
  StopController stops(plan_of_an_hour(), 0);
  stops.run_begins(kBegin, /*takes_over=*/true);
  write_at(kBegin - 60'000);
  EXPECT_TRUE(obeys(&stops));
}

}  // namespace
}  // namespace dl::supervise
