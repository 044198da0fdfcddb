// SPDX-License-Identifier: Apache-2.0
// What a run has learned stands in its events, for a dlrun that takes the place of one that died.
#include "launcher/record/run_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/atomic_file.h"
#include "launcher/record/event_log.h"
#include "launcher/record/job_dir.h"
#include "launcher/supervise/journal.h"

namespace dl::record {
namespace {

RunMemory full() {
  RunMemory memory;
  memory.restarts = 3;
  memory.class_restarts = {{"gpu-memory", 1}, {"port", 2}};
  memory.moved = 1;
  memory.left_out = {"n2", "n4"};
  memory.lost = {"n5"};
  memory.excluded = "n2,n7";
  memory.fence_unix_ms = 1789000002750;
  memory.store_host = kStoreWithoutLibuv;
  memory.stop = AcceptedStop{"yield", "lent GPUs are taken back", 12, 1789000060000, true};
  memory.decided = "requeue";
  return memory;
}

TEST(RunMemoryTest, EveryMemberIsReadBack) {
  Event event;
  event.memory = full();
  const auto read = parse_event(format_event(event));
  ASSERT_TRUE(read) << read.error().text;
  ASSERT_TRUE(read->memory);
  EXPECT_TRUE(*read->memory == full());
  const auto empty = memory_from(to_json(RunMemory{}));
  ASSERT_TRUE(empty);
  RunMemory plain;
  plain.stop = AcceptedStop{"interrupt", "", 0, 0, false};
  const auto again = memory_from(to_json(plain));
  ASSERT_TRUE(again);
  EXPECT_TRUE(*again == plain);
  EXPECT_FALSE(plain == RunMemory{});
  EXPECT_TRUE(*empty == RunMemory{});
}

TEST(RunMemoryTest, BadOnesAreRefused) {
  for (const char* text :
       {"1", "[]", R"({"restarts":"2"})", R"({"class_restarts":[1]})", R"({"class_restarts":{"port":"1"}})",
        R"({"left_out":"n1"})", R"({"left_out":[1]})", R"({"lost":"n1"})", R"({"excluded":3})", R"({"stop":"pause"})",
        R"({"fence_ms":1.5})", R"({"store_host":1})", R"({"stop":{}})", R"({"stop":{"cause":1}})",
        R"({"stop":{"cause":"pause","hold":1}})", R"({"stop":{"cause":"pause","who":[]}})",
        R"({"stop":{"cause":"pause","signal":"9"}})", R"({"stop":{"cause":"pause","deadline_ms":"1"}})",
        R"({"decided":true})"})
    EXPECT_FALSE(memory_from(Json::parse(text))) << text;
  EXPECT_TRUE(memory_from(Json::parse(R"({"of_a_later_version":1})")));
}

class JournalMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-memory-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + root_ + "'").c_str()), 0); }
  RunMemory read() {
    const auto history = read_events(JobDir(root_).events());
    return history ? remembered(history->events) : RunMemory{};
  }
  std::string root_;
};

TEST_F(JournalMemoryTest, ARestartOfDlrunForgetsNoLimitNoNodeAndNoFence) {
  {
    supervise::Journal journal(JobDir(root_), nullptr);
    ASSERT_TRUE(journal.open());
    journal.begin_attempt(1, 0);
    journal.job(JobState::kDeploy, "");
    // A node was lost: its fence is written down with the first word about it, before anything is decided.
    RunMemory memory;
    memory.fence_unix_ms = 1789000002750;
    journal.remember(memory);
    journal.learner(0, JobState::kFailed, "n2", "node n2 does not answer");
    EXPECT_TRUE(read() == memory);
    journal.remember(full());
    journal.begin_attempt(2, 3);
    journal.job(JobState::kDeploy, "restart 3 of 4");
    journal.job(JobState::kProcessing, "all learners run");
  }
  EXPECT_TRUE(read() == full());
}

TEST_F(JournalMemoryTest, AJobThatComesBackFromTheQueueBeginsWithAnEmptyOne) {
  {
    supervise::Journal journal(JobDir(root_), nullptr);
    ASSERT_TRUE(journal.open());
    journal.remember(full());
    journal.begin_attempt(1, 3);
    journal.job(JobState::kDeploy, "");
    journal.job(JobState::kPending, "preempted");
  }
  supervise::Journal journal(JobDir(root_), nullptr);
  ASSERT_TRUE(journal.open());
  journal.begin_attempt(2, 0);
  journal.job(JobState::kDeploy, "");
  EXPECT_TRUE(read() == RunMemory{});
}

}  // namespace
}  // namespace dl::record
