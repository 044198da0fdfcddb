// SPDX-License-Identifier: Apache-2.0
// The time index of an attempt's logs, as dlrun writes it beside the loop.
#include "launcher/supervise/log_times.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/atomic_file.h"
#include "launcher/logs/log_index.h"

namespace dl::supervise {
namespace {

constexpr int64_t kBegin = 1'789'000'000'000;

class LogTimesTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-times-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    std::filesystem::create_directory(dir_ + "/1");
    std::filesystem::create_directory(dir_ + "/2");
    ASSERT_EQ(uv_loop_init(&loop_), 0);
  }
  void TearDown() override {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    std::filesystem::remove_all(dir_);
  }
  logs::LogIndex index(const std::string& attempt) const {
    const auto text = read_small_file(dir_ + "/" + attempt + "/" + logs::kIndexName, 1 << 20);
    if (!text) return {};
    const auto parsed = logs::LogIndex::parse(*text);
    return parsed ? *parsed : logs::LogIndex{};
  }
  std::string dir_;
  uv_loop_t loop_{};
};

TEST_F(LogTimesTest, WhatAgentsReportIsWrittenWithTheNextFlush) {
  LogTimes times(&loop_);
  times.begin_attempt(dir_ + "/1", kBegin);
  times.grew(0, 100, kBegin + 1000);
  times.grew(1, 50, kBegin + 1100);
  times.grew(0, 300, kBegin + 2000);
  EXPECT_FALSE(times.idle()) << "they are not written yet";
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(index("1").empty());
  times.flush();
  EXPECT_FALSE(times.idle()) << "they are being written";
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(times.idle());
  const logs::LogIndex written = index("1");
  EXPECT_EQ(written.base_ms(), kBegin);
  EXPECT_EQ(written.end_at(0, kBegin + 1000), 100U);
  EXPECT_EQ(written.time_of(0, 200), kBegin + 2000);
  EXPECT_TRUE(written.knows(1));
  times.grew(1, 70, kBegin + 3000);
  times.flush();
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(index("1").time_of(1, 60), kBegin + 3000) << "the index grows";
  EXPECT_EQ(index("1").time_of(0, 200), kBegin + 2000);
}

TEST_F(LogTimesTest, ANewAttemptHasAnIndexOfItsOwn) {
  LogTimes times(&loop_);
  times.begin_attempt(dir_ + "/1", kBegin);
  times.grew(0, 100, kBegin + 1000);
  times.begin_attempt(dir_ + "/2", kBegin + 60'000);
  times.grew(0, 10, kBegin + 61'000);
  times.flush();
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(index("1").last_ms(), kBegin + 1000) << "what was reported before belongs to the former";
  EXPECT_EQ(index("2").base_ms(), kBegin + 60'000);
  EXPECT_EQ(index("2").first_ms(), kBegin + 61'000);
}

TEST_F(LogTimesTest, AnIndexThatCannotBeWrittenHoldsUpNothing) {
  LogTimes times(&loop_);
  times.grew(0, 5, kBegin);  // before any attempt
  times.flush();
  EXPECT_TRUE(times.idle());
  times.begin_attempt(dir_ + "/none", kBegin);
  for (int i = 1; i < 4; ++i) {
    times.grew(0, 100, kBegin + 1000 * i);
    times.flush();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_TRUE(times.idle());
  }
}

}  // namespace
}  // namespace dl::supervise
