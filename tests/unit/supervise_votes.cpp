// SPDX-License-Identifier: Apache-2.0
// The job's vote: the median of its learners', within the range, and what becomes of votes that are old, not allowed,
// or of learners that have finished.
#include "launcher/supervise/votes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <random>
#include <string>
#include <vector>

#include "launcher/supervise/wanted_learners.h"

namespace dl::supervise {
namespace {

constexpr LearnerRange kWide{1, kMaxLearners};

LearnerRange range_of(int min, int max) {
  LearnerRange range;
  range.min = min;
  range.max = max;
  return range;
}

// The job's change for these votes, and learners that have not voted.
int change_of(const std::vector<int>& changes, int silent = 0) {
  std::vector<std::optional<Vote>> votes;
  for (const int change : changes) votes.emplace_back(Vote{change, ""});
  votes.resize(votes.size() + static_cast<size_t>(silent));
  const auto job = job_vote(votes, kWide);
  return job ? job->change : INT_MIN;
}

TEST(JobVoteTest, IsTheMedianAndTheOneNearerToNoChangeOfTwo) {
  EXPECT_EQ(change_of({3}), 3);
  EXPECT_EQ(change_of({1, 2, 100}), 2);
  EXPECT_EQ(change_of({-1, -2, -100}), -2);
  EXPECT_EQ(change_of({1, 3}), 1);
  EXPECT_EQ(change_of({-3, -1}), -1);
  EXPECT_EQ(change_of({-3, 5}), 0);
  EXPECT_EQ(change_of({-3, 0}), 0);
  EXPECT_EQ(change_of({0, 5}), 0);
}

TEST(JobVoteTest, SilentLearnersVoteForNoChange) {
  EXPECT_EQ(change_of({}, 4), INT_MIN) << "nobody has voted";
  EXPECT_EQ(change_of({2, 2, 2}, 1), 2);
  EXPECT_EQ(change_of({2, 2}, 2), 0) << "half of them is not more than half";
  EXPECT_EQ(change_of({100000}, 2), 0) << "one alone moves nothing";
}

TEST(JobVoteTest, StaysWithinWhatTheUserAskedFor) {
  const std::vector<std::optional<Vote>> up(4, Vote{100000, "more"}), down(4, Vote{-100000, "less"});
  EXPECT_EQ(job_vote(up, range_of(2, 6))->wanted, 6);
  EXPECT_EQ(job_vote(up, range_of(2, 6))->change, 100000);
  EXPECT_EQ(job_vote(down, range_of(2, 6))->wanted, 2);
  EXPECT_EQ(job_vote(up, range_of(4, 4))->wanted, 4) << "not elastic";
  EXPECT_EQ(job_vote(down, range_of(5, 8))->wanted, 5) << "fewer learners than asked for, after a lost node";
  const std::vector<std::optional<Vote>> some(4, Vote{-1, ""});
  EXPECT_EQ(job_vote(some, range_of(2, 6))->wanted, 3);
}

TEST(JobVoteTest, GivesTheReasonOfAVoteThatIsNearestToIt) {
  const std::vector<std::optional<Vote>> votes = {Vote{9, "far off"}, Vote{2, ""}, std::nullopt,
                                                  Vote{2, "loader stalls 40 %"}, Vote{2, "later"}};
  const auto job = job_vote(votes, kWide);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->change, 2);
  EXPECT_EQ(job->reason, "loader stalls 40 %");
  EXPECT_EQ(job->voted, 4);
  EXPECT_EQ(job->learners, 5);
  EXPECT_EQ(job_vote({Vote{1, ""}}, kWide)->reason, "");
}

// No vote beyond what the others span, no change without more than half of all, in any random electorate.
TEST(JobVoteTest, HoldsInRandomElectorates) {
  std::mt19937 random(19);
  for (int round = 0; round < 100'000; ++round) {
    const int learners = 1 + static_cast<int>(random() % 9);
    std::vector<std::optional<Vote>> votes;
    int more = 0, fewer = 0, highest = INT_MIN, lowest = INT_MAX;
    for (int i = 0; i < learners; ++i) {
      if (random() % 3 == 0) {
        votes.emplace_back();
        continue;
      }
      const int change =
          random() % 8 == 0 ? (random() % 2 == 0 ? kMostVote : -kMostVote) : static_cast<int>(random() % 7) - 3;
      votes.emplace_back(Vote{change, ""});
      more += change > 0;
      fewer += change < 0;
      highest = std::max(highest, change);
      lowest = std::min(lowest, change);
    }
    const LearnerRange range = range_of(1 + static_cast<int>(random() % 4), 4 + static_cast<int>(random() % 8));
    const auto job = job_vote(votes, range);
    if (!job) continue;
    EXPECT_GE(job->wanted, range.min);
    EXPECT_LE(job->wanted, range.max);
    if (job->change > 0) {
      EXPECT_GT(2 * more, learners);
      EXPECT_LE(job->change, highest);
    }
    if (job->change < 0) {
      EXPECT_GT(2 * fewer, learners);
      EXPECT_GE(job->change, lowest);
    }
  }
}

class VotesTest : public testing::Test {
 protected:
  void SetUp() override { votes_.begin_attempt(5); }
  std::optional<JobVote> at(int64_t now_ms) const { return votes_.of_job(learners_, 4, range_of(2, 8), now_ms); }
  Votes votes_;
  std::vector<Learner> learners_ = std::vector<Learner>(5);  // the last one is a parameter server
};

TEST_F(VotesTest, TheNewestVoteOfEachLearnerCounts) {
  EXPECT_FALSE(at(0));
  for (int rank = 0; rank < 3; ++rank) votes_.cast(rank, {1, "first"}, 0);
  for (int rank = 0; rank < 3; ++rank) votes_.cast(rank, {2, "loader stalls 40 %"}, 1000);
  const auto job = at(1000);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->change, 2);
  EXPECT_EQ(job->wanted, 6);
  EXPECT_EQ(job->voted, 3);
  EXPECT_EQ(job->learners, 4);
  EXPECT_EQ(job->reason, "loader stalls 40 %");
}

TEST_F(VotesTest, ALearnerThatHasFinishedHasNoVote) {
  for (int rank = 0; rank < 3; ++rank) votes_.cast(rank, {2, "x"}, 0);
  const auto finish = [this](int rank) {
    learners_[static_cast<size_t>(rank)].ended = true;
    learners_[static_cast<size_t>(rank)].state = record::JobState::kCompleted;
  };
  finish(0);
  EXPECT_EQ(at(0)->voted, 2);
  EXPECT_EQ(at(0)->change, 0) << "two of four";
  finish(1);
  finish(2);
  EXPECT_FALSE(at(0));
}

// The votes for another number bring about the very stop in which learners end one after another.
TEST_F(VotesTest, WhatLearnersAskForDoesNotChangeWhileTheyAreStoppedOrFail) {
  for (int rank = 0; rank < 3; ++rank) votes_.cast(rank, {-1, "x"}, 0);
  for (size_t rank = 0; rank < 4; ++rank) {
    learners_[rank].ended = true;
    learners_[rank].state = rank == 1 ? record::JobState::kFailed : record::JobState::kHalted;
    ASSERT_TRUE(at(0)) << rank;
    EXPECT_EQ(at(0)->wanted, 3) << rank;
  }
}

TEST_F(VotesTest, AVoteExpiresUnlessItIsCastAnew) {
  for (int rank = 0; rank < 3; ++rank) votes_.cast(rank, {2, "x"}, 5000);
  EXPECT_EQ(at(5000 + kVoteLastsMs - 1)->change, 2);
  EXPECT_FALSE(at(5000 + kVoteLastsMs));
  votes_.cast(1, {2, "x"}, kVoteLastsMs);
  EXPECT_EQ(at(5000 + kVoteLastsMs)->voted, 1);
}

TEST_F(VotesTest, AnotherAttemptBeginsWithoutVotes) {
  votes_.cast(0, {2, "x"}, 0);
  votes_.begin_attempt(2);
  learners_.resize(2);
  EXPECT_FALSE(votes_.of_job(learners_, 2, range_of(1, 2), 0));
}

TEST_F(VotesTest, WhatIsNotAllowedIsIgnoredAndServersHaveNoVote) {
  for (const int rank : {-1, 5, INT_MAX, INT_MIN}) votes_.cast(rank, {2, "x"}, 0);
  votes_.cast(4, {2, "a server"}, 0);
  votes_.cast(0, {kMostVote + 1, "x"}, 0);
  votes_.cast(0, {INT_MIN, "x"}, 0);
  votes_.cast(0, {2, "\x1b[2J"}, 0);
  votes_.cast(0, {2, std::string(201, 'x')}, 0);
  EXPECT_FALSE(at(0));
  votes_.cast(0, {2, "good"}, 0);
  votes_.cast(0, {2, "\n"}, 0);
  EXPECT_EQ(at(0)->reason, "good") << "a vote that is refused replaces none";
}

TEST_F(VotesTest, AnAttemptThatHasNotBegunHasNoVote) {
  const Votes none;
  EXPECT_FALSE(none.of_job({}, 0, range_of(1, 1), 0));
  EXPECT_FALSE(none.of_job({}, 3, range_of(1, 1), 0));
}

JobVote wants(int learners) {
  JobVote vote;
  vote.wanted = learners;
  return vote;
}

TEST(WantedLearnersTest, WhatVotesAskForOutlivesTheRestartThatItBringsAbout) {
  WantedLearners wanted;
  EXPECT_FALSE(wanted.look({}, true, 0));
  EXPECT_EQ(wanted.look(wants(4), true, 1000), 4);
  EXPECT_EQ(wanted.look({}, true, 1000 + kVoteLastsMs - 1), 4) << "a new attempt begins without votes";
  EXPECT_FALSE(wanted.look({}, true, 1000 + kVoteLastsMs));
  EXPECT_FALSE(wanted.look({}, true, 2000 + kVoteLastsMs));
  EXPECT_EQ(wanted.look(wants(2), true, 3000 + kVoteLastsMs), 2);
}

TEST(WantedLearnersTest, WhatAnEarlierDlrunWroteStandsUntilAVoteIsCast) {
  WantedLearners wanted;
  wanted.found(4, 0);
  EXPECT_EQ(wanted.look({}, true, 1), 4);
  EXPECT_EQ(wanted.look(wants(3), true, 2), 3);
  wanted.found(4, 3);
  EXPECT_EQ(wanted.look({}, true, 4), 3);
  WantedLearners nobody;
  nobody.found(4, 0);
  EXPECT_FALSE(nobody.look({}, true, kVoteLastsMs));
}

TEST(WantedLearnersTest, TheTimeOfALongStartDoesNotCount) {
  WantedLearners wanted;
  EXPECT_EQ(wanted.look(wants(4), true, 0), 4);
  EXPECT_EQ(wanted.look({}, false, kVoteLastsMs - 1), 4);
  EXPECT_EQ(wanted.look({}, false, 2 * kVoteLastsMs - 2), 4) << "the learners are still being started";
  EXPECT_EQ(wanted.look({}, true, 3 * kVoteLastsMs - 3), 4);
  EXPECT_FALSE(wanted.look({}, true, 3 * kVoteLastsMs - 2));
  EXPECT_FALSE(wanted.look({}, false, 4 * kVoteLastsMs)) << "what has ended stays so";
}

}  // namespace
}  // namespace dl::supervise
