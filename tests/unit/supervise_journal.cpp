// SPDX-License-Identifier: Apache-2.0
// What is written down of a run: also while its disk is full for a while, and for the dlrun that takes over.
#include "launcher/supervise/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace dl::supervise {
namespace {

TEST(JournalTest, WhatCouldNotBeWrittenOfTheMemoryComesWithTheNextEvent) {
  std::string folder = testing::TempDir() + "journal-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const record::JobDir dir(folder);
  Journal journal(dir, nullptr);
  ASSERT_TRUE(journal.open());
  journal.begin_attempt(1, 0);
  journal.note("first");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{std::filesystem::file_size(dir.events()), before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  record::RunMemory memory;
  memory.restarts = 2;
  journal.remember(memory);
  journal.note("lost");
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(journal.lost(), 1);
  journal.note("there is room again");
  const auto history = record::read_events(dir.events());
  ASSERT_TRUE(history);
  EXPECT_EQ(record::remembered(history->events).restarts, 2);
  std::filesystem::remove_all(folder);
}

// What a run has learned stands in its events, for a dlrun that takes the place of one that died.
record::RunMemory learned() {
  record::RunMemory memory;
  memory.restarts = 3;
  memory.class_restarts = {{"gpu-memory", 1}, {"port", 2}};
  memory.left_out = {"n2", "n4"};
  memory.excluded = "n2,n7";
  memory.fence_unix_ms = 1789000002750;
  memory.stop = record::AcceptedStop{"yield", "lent GPUs are taken back", 12, 1789000060000, true};
  return memory;
}

class JournalMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-memory-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + root_ + "'").c_str()), 0); }
  record::RunMemory read() {
    const auto history = record::read_events(record::JobDir(root_).events());
    return history ? record::remembered(history->events) : record::RunMemory{};
  }
  std::string root_;
};

TEST_F(JournalMemoryTest, ARestartOfDlrunForgetsNoLimitNoNodeAndNoFence) {
  {
    Journal journal(record::JobDir(root_), nullptr);
    ASSERT_TRUE(journal.open());
    journal.begin_attempt(1, 0);
    journal.job(record::JobState::kDeploy, "");
    // A node was lost: its fence is written down with the first word about it, before anything is decided.
    record::RunMemory memory;
    memory.fence_unix_ms = 1789000002750;
    journal.remember(memory);
    journal.learner(0, record::JobState::kFailed, "n2", "node n2 does not answer");
    EXPECT_TRUE(read() == memory);
    journal.remember(learned());
    journal.begin_attempt(2, 3);
    journal.job(record::JobState::kDeploy, "restart 3 of 4");
    journal.job(record::JobState::kProcessing, "all learners run");
  }
  EXPECT_TRUE(read() == learned());
}

TEST_F(JournalMemoryTest, WhatALearnerHasUsedComesWithTheNextEventAboutItInItsAttempt) {
  Journal journal(record::JobDir(root_), nullptr);
  ASSERT_TRUE(journal.open());
  journal.begin_attempt(1, 0);
  journal.learner_used(1, {{"cpus_used", 0.5}});
  journal.learner_used(2, {});
  journal.learner_used(3, {{"cpus_used", 0.25}});
  journal.learner(0, record::JobState::kCompleted, "n1");
  journal.learner(1, record::JobState::kCompleted, "n1");
  journal.learner(2, record::JobState::kCompleted, "n1");
  journal.learner(1, record::JobState::kCompleted, "n1");
  journal.begin_attempt(2, 0);
  journal.learner(3, record::JobState::kCompleted, "n1");
  const std::vector<record::Event>& events = journal.events();
  ASSERT_EQ(events.size(), 5U);
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].use.has_value(), i == 1) << i;
  EXPECT_EQ(events[1].use->numbers.at("cpus_used"), 0.5);
}

TEST_F(JournalMemoryTest, AJobThatComesBackFromTheQueueBeginsWithAnEmptyOne) {
  {
    Journal journal(record::JobDir(root_), nullptr);
    ASSERT_TRUE(journal.open());
    journal.remember(learned());
    journal.begin_attempt(1, 3);
    journal.job(record::JobState::kDeploy, "");
    journal.job(record::JobState::kPending, "preempted");
  }
  Journal journal(record::JobDir(root_), nullptr);
  ASSERT_TRUE(journal.open());
  journal.begin_attempt(2, 0);
  journal.job(record::JobState::kDeploy, "");
  EXPECT_TRUE(read() == record::RunMemory{});
}

}  // namespace
}  // namespace dl::supervise
