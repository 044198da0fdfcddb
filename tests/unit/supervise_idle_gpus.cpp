// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/contract/idle_hint.h"
#include "launcher/agent/gpu_sampler.h"
#include "launcher/record/job_comment.h"
#include "launcher/supervise/idle_gpus.h"

namespace dl::supervise {
namespace {

using Ranks = std::vector<int>;

constexpr int64_t kMinute = 60'000, kReport = 15'000;

SiteIdle site() {
  SiteIdle site;
  site.after = std::chrono::minutes(30);
  site.below = 5;
  return site;
}

// Reports of `percent` each quarter of a minute; returns when the last one came.
int64_t report(IdleGpus* gpus, int rank, int64_t from_ms, int64_t to_ms, int percent) {
  int64_t at = from_ms;
  for (; at <= to_ms; at += kReport) gpus->add(rank, at, percent);
  return at - kReport;
}

TEST(IdleGpusTest, SaysItOnceAfterTheTimeOfTheSiteAndOnceWhenTheyAreUsedAgain) {
  IdleGpus gpus(2, site());
  report(&gpus, 0, 0, 30 * kMinute, 80);
  report(&gpus, 1, 0, 30 * kMinute - kReport, 4);
  EXPECT_TRUE(gpus.look(30 * kMinute).idle.empty()) << "since the last report they may have been used";
  gpus.add(1, 30 * kMinute, 4);
  EXPECT_EQ(gpus.look(30 * kMinute).idle, Ranks{1});
  EXPECT_TRUE(gpus.look(30 * kMinute + 1000).idle.empty());
  EXPECT_EQ(gpus.idle(), Ranks{1});
  EXPECT_EQ(gpus.unused_ms({1}, 32 * kMinute), 32 * kMinute);
  gpus.add(1, 31 * kMinute, 5);
  gpus.add(1, 31 * kMinute + kReport, 5);
  EXPECT_EQ(gpus.look(32 * kMinute).used_again, Ranks{1});
  EXPECT_TRUE(gpus.idle().empty());
}

TEST(IdleGpusTest, ThoseThatBecomeIdleBetweenTwoLooksAreToldOfTogether) {
  IdleGpus gpus(3, site());
  for (const int rank : {0, 1, 2}) report(&gpus, rank, rank * 300, 30 * kMinute + rank * 300, 0);
  EXPECT_EQ(gpus.look(30 * kMinute + 1000).idle, (Ranks{0, 1, 2}));
  EXPECT_TRUE(gpus.look(30 * kMinute + 2000).idle.empty());
}

TEST(IdleGpusTest, ABlipDoesNotMakeThemUsedAndOneInTimeKeepsThemFromBeingIdle) {
  IdleGpus gpus(1, site());
  report(&gpus, 0, 0, 29 * kMinute, 0);
  gpus.add(0, 29 * kMinute, 50);
  report(&gpus, 0, 29 * kMinute + kReport, 58 * kMinute, 0);
  EXPECT_TRUE(gpus.look(58 * kMinute).idle.empty());
  report(&gpus, 0, 58 * kMinute, 60 * kMinute, 0);
  EXPECT_EQ(gpus.look(60 * kMinute).idle, Ranks{0});
  for (int64_t at = 61 * kMinute; at < 70 * kMinute; at += 2 * kReport) {
    gpus.add(0, at, 90);
    gpus.add(0, at + kReport, 0);
    const auto news = gpus.look(at + kReport);
    EXPECT_TRUE(news.used_again.empty() && news.idle.empty());
  }
}

TEST(IdleGpusTest, WhatIsNotHeardOfIsNeitherUsedNorIdle) {
  IdleGpus gpus(2, site());
  EXPECT_TRUE(gpus.look(100 * kMinute).idle.empty());
  const int64_t last = report(&gpus, 0, 0, 31 * kMinute, 0);
  EXPECT_EQ(gpus.look(last).idle, Ranks{0});
  EXPECT_TRUE(gpus.look(last + IdleGpus::kSilenceMs).unknown.empty());
  EXPECT_EQ(gpus.look(last + IdleGpus::kSilenceMs + 1).unknown, Ranks{0});
  // Heard of again it has its time anew.
  report(&gpus, 0, 60 * kMinute, 89 * kMinute, 0);
  EXPECT_TRUE(gpus.look(89 * kMinute).idle.empty());
}

TEST(IdleGpusTest, NothingIsEverIdleWhereTheSiteSaysNever) {
  SiteIdle never = site();
  never.after = std::chrono::seconds(0);
  IdleGpus gpus(1, never);
  const int64_t last = report(&gpus, 0, 0, 100 * kMinute, 0);
  EXPECT_TRUE(gpus.look(last).idle.empty());
}

TEST(IdleGpusTest, TheWordsNameTheLearnersTheirGpusAndTheTime) {
  EXPECT_EQ(unused_text({3}, 2, 32 * kMinute + 59'000), "learner 3 has not used its 2 GPUs for 32m");
  EXPECT_EQ(unused_text({3}, 1, 90'500), "learner 3 has not used its GPU for 1m30s");
  EXPECT_EQ(unused_text({0, 2}, 1, 90 * kMinute), "2 learners (0, 2) have not used their 2 GPUs for 1h30m");
  EXPECT_EQ(used_again_text({0, 1, 2, 3, 4, 5, 6, 7, 8}, 2),
            "9 learners (0, 1, 2, 3, 4, 5, 6, 7, ...) use their 18 GPUs again");
  EXPECT_EQ(unknown_text({1}, 2), "it is not known any more whether learner 1 uses its 2 GPUs");
}

TEST(IdleHintTest, TravelsInTheCommentAndNothingElseThereIsTakenForIt) {
  record::JobComment comment;
  comment.user_text = "mine dl:PROCESSING idle=9@9";
  comment.state = record::JobState::kProcessing;
  comment.attempt = 1;
  comment.idle = {4, 1'789'000'000};
  comment.dir = "/x idle=7@7/dl-1";
  comment.reason = "r idle=8@8";
  const auto parsed = record::parse_comment(record::format_comment(comment));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->idle.gpus, 4);
  EXPECT_EQ(parsed->idle.since_s, 1'789'000'000);
  EXPECT_EQ(parsed->dir, comment.dir);
  comment.user_text.clear();
  EXPECT_EQ(idle_hint_in(record::format_comment(comment)).gpus, 4);
  comment.idle = {};
  EXPECT_EQ(idle_hint_in(record::format_comment(comment)).gpus, 0);
}

TEST(IdleHintTest, RubbishIsNoHint) {
  for (const char* text : {"", "4", "@", "4@", "@5", "0@5", "-1@5", "4@-5", "4@0", "x@5", "4@5x", "4@5@6",
                           "99999999999999999999@5", "4@99999999999999999999", "2000000@5"})
    EXPECT_EQ(parse_idle_hint(text).gpus, 0) << text;
  for (const char* comment :
       {"", "idle=4@5", "dl:", "dl:PROCESSING", "dl:PROCESSING idle=", "dl:X reason= dir=/ idle=4@5"})
    EXPECT_EQ(idle_hint_in(comment).gpus, 0) << comment;
}

TEST(GpuSamplerTest, FindsALearnersGpusAmongThoseThatItsAgentMaySee) {
  using agent::gpus_of_learner;
  using Names = std::vector<std::string>;
  // All of the job's here, or just the learner's own.
  EXPECT_EQ(gpus_of_learner("4,5,6,7", 1, 2, 2).names, (Names{"6", "7"}));
  EXPECT_EQ(gpus_of_learner("4,5", 1, 2, 2).names, (Names{"4", "5"}));
  EXPECT_EQ(gpus_of_learner("GPU-8a,MIG-1/2/3", 0, 2, 1).names, (Names{"GPU-8a"}));
  EXPECT_EQ(gpus_of_learner("4,5,6,7", 1, 2, 2).seen, 0U);
  // Nobody says which: numbers of NVML's, if it shows these four alone.
  EXPECT_EQ(gpus_of_learner(nullptr, 1, 2, 2).names, (Names{"2", "3"}));
  EXPECT_EQ(gpus_of_learner(nullptr, 1, 2, 2).seen, 4U);
  for (const char* visible : {"", "-1", "NoDevFiles", "1,2,3"})
    EXPECT_TRUE(gpus_of_learner(visible, 1, 2, 2).names.empty()) << visible;
  EXPECT_TRUE(gpus_of_learner("0", 0, 1, 0).names.empty());
  EXPECT_TRUE(gpus_of_learner("0", 2, 2, 1).names.empty());
}

}  // namespace
}  // namespace dl::supervise
