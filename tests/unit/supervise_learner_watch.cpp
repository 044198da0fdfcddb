// SPDX-License-Identifier: Apache-2.0
// What is noticed of learners while they train: where it is said, and what `dlctl status` shows of it.
#include "launcher/supervise/learner_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace dl::supervise {

using namespace protocol;

namespace {

class LearnerWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    journal_ = std::make_unique<Journal>(record::JobDir(folder_), nullptr);
    ASSERT_TRUE(journal_->open());
    journal_->begin_attempt(1, 0);
    journal_->job(record::JobState::kDeploy, "");
    journal_->job(record::JobState::kProcessing, "all learners run");
    site_.after = std::chrono::seconds(60);
    watch_ = std::make_unique<LearnerWatch>(&voice_, site_);
    watch_->begin_attempt(journal_.get(), 1, 3, 2);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  const record::Event& last() const { return journal_->events().back(); }

  std::string folder_ = testing::TempDir() + "watch-XXXXXX";
  std::unique_ptr<Journal> journal_;
  std::string said_;
  Voice voice_{0, false, [this](const std::string& text) { said_ += text; }};
  SiteIdle site_;
  std::unique_ptr<LearnerWatch> watch_;
};

TEST_F(LearnerWatchTest, ASlowLearnerIsReportedOnceAndNoted) {
  std::vector<Learner> learners(3);
  for (size_t rank = 0; rank < 3; ++rank) {
    learners[rank].host = "n" + std::to_string(rank);
    learners[rank].state = record::JobState::kProcessing;
    for (int64_t step = 0; step < 30; ++step) learners[rank].times.add(1000 + step * (rank == 2 ? 300 : 100), step);
  }
  for (int looks = 0; looks < 2 * SlowLearners::kTimes; ++looks) watch_->look(learners, 1000, 0);
  const std::string note = watch_->note(2, 1000);
  EXPECT_EQ(note.rfind("slow: its train step takes 300 ms", 0), 0U) << note;
  EXPECT_EQ(said_, "dlrun: warning: learner 2 on n2 is " + note + "\n");
  EXPECT_EQ(last().learner, 2);
  EXPECT_EQ(last().reason, note);
  EXPECT_EQ(watch_->note(0, 1000), "");
  watch_->begin_attempt(journal_.get(), 2, 3, 2);
  EXPECT_EQ(watch_->note(2, 1000), "") << "another attempt, another try";
}

TEST_F(LearnerWatchTest, UnusedGpusAreReportedAndSoIsTheirUse) {
  EXPECT_EQ(watch_->gpu_look_ms(), 3000) << "a twentieth of the time after which they count as idle";
  const std::vector<Learner> learners(3);
  watch_->gpus_used(1, 0, 1000);
  watch_->gpus_used(1, 0, 62'000);
  watch_->look(learners, 62'000, 1'789'000'062'000);
  const std::string text = "learner 1 has not used its 2 GPUs for 1m";
  EXPECT_EQ(said_.rfind("dlrun: warning: " + text, 0), 0U) << said_;
  EXPECT_EQ(watch_->note(1, 62'000).rfind(text, 0), 0U) << watch_->note(1, 62'000);
  EXPECT_EQ(last().reason.rfind(text, 0), 0U) << last().reason;
  watch_->gpus_used(1, 80, 63'000);
  watch_->gpus_used(1, 80, 64'000);
  watch_->look(learners, 64'000, 1'789'000'064'000);
  EXPECT_EQ(last().reason, used_again_text({1}, 2));
  EXPECT_EQ(watch_->note(1, 64'000), "");
}

TEST_F(LearnerWatchTest, WhereIdleGpusAreNotLookedForAgentsDoNotMeasure) {
  site_.after = std::chrono::seconds(0);
  EXPECT_EQ(LearnerWatch(&voice_, site_).gpu_look_ms(), 0);
  site_.after = std::chrono::hours(10);
  EXPECT_EQ(LearnerWatch(&voice_, site_).gpu_look_ms(), 5000);
}

TEST_F(LearnerWatchTest, MissingOutputIsSaidOnceAndKnownAfterTheAttempt) {
  LogLost lost;
  watch_->log_lost(0, lost);
  EXPECT_EQ(said_, "") << "nothing is missing";
  lost.bytes = 512;
  lost.error = "write /logs/learner-0.log: No space left on device";
  watch_->log_lost(0, lost);
  const std::string said = said_;
  EXPECT_NE(said, "");
  EXPECT_NE(watch_->note(0, 0), "");
  EXPECT_EQ("dlrun: " + last().reason + "\n", said);
  lost.bytes = 1024;
  watch_->log_lost(0, lost);
  EXPECT_EQ(said_, said);
  watch_->begin_attempt(journal_.get(), 2, 3, 2);
  EXPECT_EQ(watch_->note(0, 0), "");
  EXPECT_NE(watch_->log_losses().summary(0), "");
}

}  // namespace
}  // namespace dl::supervise
