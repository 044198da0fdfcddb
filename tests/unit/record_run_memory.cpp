// SPDX-License-Identifier: Apache-2.0
// What a run has learned stands in its events, for a dlrun that takes the place of one that died.
#include "launcher/record/run_memory.h"

#include <gtest/gtest.h>

#include "launcher/record/event_log.h"

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

}  // namespace
}  // namespace dl::record
