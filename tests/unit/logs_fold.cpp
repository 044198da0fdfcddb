// SPDX-License-Identifier: Apache-2.0
// Lines that many learners wrote alike are shown once, and each learner's lines keep their order.
#include "launcher/logs/fold.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace dl::logs {
namespace {

std::vector<std::string> shown(std::vector<Waiting>* learners, bool alike = true) {
  std::vector<std::string> all;
  show_due(learners, alike, [&all](const std::vector<int>& ranks, const std::string& line) {
    all.push_back("[" + ranks_text(ranks) + "] " + line);
  });
  return all;
}

Waiting waits(int rank, std::deque<std::string> lines) {
  const size_t due = lines.size();
  return {rank, std::move(lines), due};
}

using Texts = std::vector<std::string>;

TEST(FoldTest, RanksAreWrittenAsRanges) {
  EXPECT_EQ(ranks_text({0}), "0");
  EXPECT_EQ(ranks_text({0, 1}), "0-1");
  EXPECT_EQ(ranks_text({0, 1, 2, 7, 9, 10}), "0-2,7,9-10");
  EXPECT_EQ(ranks_text({}), "");
}

TEST(FoldTest, EqualLinesAreOne) {
  std::vector<Waiting> learners = {waits(0, {"a", "b"}), waits(1, {"a", "b"}), waits(2, {"a", "b"})};
  EXPECT_EQ(shown(&learners), (Texts{"[0-2] a", "[0-2] b"}));
}

TEST(FoldTest, ALineOfOneLearnerDoesNotPartTheOthers) {
  std::vector<Waiting> learners = {waits(0, {"a", "only 0", "b"}), waits(1, {"a", "b"})};
  EXPECT_EQ(shown(&learners), (Texts{"[0-1] a", "[0] only 0", "[0-1] b"}));
  learners = {waits(0, {"a", "b"}), waits(1, {"a", "only 1", "b"})};
  EXPECT_EQ(shown(&learners), (Texts{"[0-1] a", "[1] only 1", "[0-1] b"}));
}

TEST(FoldTest, ThreeEqualLinesOfOneAreThoseOfAnother) {
  std::vector<Waiting> learners = {waits(0, {"x", "x", "x"}), waits(1, {"x", "x"})};
  EXPECT_EQ(shown(&learners), (Texts{"[0-1] x", "[0-1] x", "[0] x"}));
}

TEST(FoldTest, WhatIsNotDueIsTakenOnlyWhereItIsAlike) {
  std::vector<Waiting> learners = {waits(0, {"a"}), waits(1, {"a", "later"})};
  learners[1].due = 0;
  EXPECT_EQ(shown(&learners), Texts{"[0-1] a"});
  EXPECT_EQ(learners[1].lines, std::deque<std::string>{"later"});
}

TEST(FoldTest, WithoutFoldingEachLineStandsAlone) {
  std::vector<Waiting> learners = {waits(0, {"a"}), waits(1, {"a"})};
  EXPECT_EQ(shown(&learners, false), (Texts{"[0] a", "[1] a"}));
}

TEST(FoldTest, NothingIsLostAndEachLearnerKeepsItsOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<Waiting> learners;
    std::map<int, std::deque<std::string>> wrote;
    for (int rank = 0; rank < 5; ++rank) {
      Waiting learner{rank * 2, {}, 0};
      for (unsigned i = 0; i < random() % 12; ++i) learner.lines.push_back(std::string(1, "abcde"[random() % 5]));
      learner.due = learner.lines.empty() ? 0 : random() % (learner.lines.size() + 1);
      wrote[learner.rank] = learner.lines;
      learners.push_back(learner);
    }
    std::map<int, size_t> due;
    for (const Waiting& learner : learners) due[learner.rank] = learner.due;
    std::map<int, size_t> seen;
    show_due(&learners, true, [&](const std::vector<int>& ranks, const std::string& line) {
      ASSERT_FALSE(ranks.empty());
      for (size_t i = 1; i < ranks.size(); ++i) ASSERT_LT(ranks[i - 1], ranks[i]);
      for (const int rank : ranks) ASSERT_EQ(wrote[rank].at(seen[rank]++), line);
    });
    for (const Waiting& learner : learners) {
      EXPECT_EQ(learner.due, 0U);
      EXPECT_GE(seen[learner.rank], due[learner.rank]);
      EXPECT_EQ(seen[learner.rank] + learner.lines.size(), wrote[learner.rank].size());
    }
  }
}

TEST(FoldTest, ManyLearnersAndManyLinesTakeLittleTime) {
  std::vector<Waiting> learners;
  for (int rank = 0; rank < 1000; ++rank) {
    std::deque<std::string> lines;
    for (int i = 0; i < 100; ++i)
      lines.push_back(i % 3 == 0 ? "rank " + std::to_string(rank) : "epoch " + std::to_string(i));
    learners.push_back(waits(rank, lines));
  }
  size_t count = 0;
  show_due(&learners, true, [&count](const std::vector<int>&, const std::string&) { ++count; });
  EXPECT_GE(count, 34'000U);
  EXPECT_LE(count, 100'000U);
}

}  // namespace
}  // namespace dl::logs
