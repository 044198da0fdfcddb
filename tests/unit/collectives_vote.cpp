// SPDX-License-Identifier: Apache-2.0
// dllearner_vote: what stands in the file of the progress page afterwards, and what it leaves alone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "common/contract/vote.h"
#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {
namespace {

class DllearnerVoteTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-vote-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    page_ = folder_ + "/page";
    put(std::string("DLCTPKG1") + std::string(kProgressPageBytes - 8, '\0'));
    ::setenv("DL_PROGRESS", page_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override {
    ::unsetenv("DL_PROGRESS");  // NOLINT(concurrency-mt-unsafe)
    ASSERT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0);
  }
  void put(const std::string& content) const { std::ofstream(page_, std::ios::binary) << content; }
  std::string content() const {
    std::ifstream in(page_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  std::optional<NumberedVote> found() const { return read_vote(content().substr(kVoteAt, kVoteBytes)); }
  std::string folder_, page_;
};

TEST_F(DllearnerVoteTest, StandsInThePageAndTheNewestReplacesTheOthers) {
  EXPECT_FALSE(found());
  ASSERT_EQ(dllearner_vote(+2, "loader stalls 40 %"), DLLEARNER_OK);
  const auto first = found();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->vote.change, 2);
  EXPECT_EQ(first->vote.reason, "loader stalls 40 %");
  ASSERT_EQ(dllearner_vote(-1, nullptr), DLLEARNER_OK);
  ASSERT_TRUE(found());
  EXPECT_EQ(found()->vote.change, -1);
  EXPECT_EQ(found()->vote.reason, "");
  EXPECT_NE(found()->number, first->number);
  ASSERT_EQ(dllearner_vote(3, std::string("a text of C++")), DLLEARNER_OK);
  EXPECT_EQ(found()->vote.reason, "a text of C++");
  ASSERT_EQ(dllearner_vote(4), DLLEARNER_OK);
  EXPECT_EQ(found()->vote.change, 4);
  std::string rest = content();
  ASSERT_EQ(rest.size(), kProgressPageBytes);
  rest.replace(kVoteAt, kVoteBytes, kVoteBytes, '\0');
  EXPECT_EQ(rest, std::string("DLCTPKG1") + std::string(kProgressPageBytes - 8, '\0')) << "nothing else is written to";
}

TEST_F(DllearnerVoteTest, OutsideOfDlrunNothingIsDoneButMistakesAreSaid) {
  const std::string nowhere = folder_ + "/no/such/page";
  for (const char* path : {"", nowhere.c_str()}) {
    ::setenv("DL_PROGRESS", path, 1);  // NOLINT(concurrency-mt-unsafe)
    EXPECT_EQ(dllearner_vote(1, "x"), DLLEARNER_OK);
    EXPECT_EQ(dllearner_vote(100001, "x"), DLLEARNER_E_INVALID);
  }
  ::unsetenv("DL_PROGRESS");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(dllearner_vote(1, "x"), DLLEARNER_OK);
  EXPECT_EQ(dllearner_vote(1, "a\nb"), DLLEARNER_E_INVALID);
  EXPECT_STREQ(dllearner_error(),
               "reason: 'a\\x0ab' is no short text; allowed: at most 200 bytes of UTF-8 without control characters");
  EXPECT_FALSE(found());
}

TEST_F(DllearnerVoteTest, OnlyAPageIsWrittenTo) {
  for (const std::string& other :
       {std::string("mine"), std::string(kProgressPageBytes, 'x'), std::string("DLCTPKG1")}) {
    put(other);
    EXPECT_EQ(dllearner_vote(1, "x"), DLLEARNER_E_IO);
    EXPECT_EQ(content(), other);
  }
  EXPECT_NE(std::string(dllearner_error()).find("is no progress page"), std::string::npos);
  ASSERT_EQ(::unlink(page_.c_str()), 0);
  ASSERT_EQ(::mkfifo(page_.c_str(), 0600), 0);
  EXPECT_EQ(dllearner_vote(1, "x"), DLLEARNER_E_IO);
  ASSERT_EQ(::unlink(page_.c_str()), 0);
  const std::string own = folder_ + "/own";
  std::ofstream(own) << std::string("DLCTPKG1") + std::string(kProgressPageBytes, 'x');
  ASSERT_EQ(::symlink(own.c_str(), page_.c_str()), 0);
  EXPECT_EQ(dllearner_vote(1, "x"), DLLEARNER_E_IO);
}

TEST_F(DllearnerVoteTest, OfVotesOfSeveralThreadsOneStandsThereWhole) {
  constexpr int kThreads = 4, kVotes = 500;
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t, &failed] {
      for (int i = 0; i < kVotes; ++i)
        if (dllearner_vote(t, std::string(static_cast<size_t>(t) * 50, static_cast<char>('a' + t))) != DLLEARNER_OK)
          ++failed;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  const auto vote = found();
  ASSERT_TRUE(vote);
  EXPECT_EQ(vote->vote.reason,
            std::string(static_cast<size_t>(vote->vote.change) * 50, static_cast<char>('a' + vote->vote.change)));
}

}  // namespace
}  // namespace dl::learner
