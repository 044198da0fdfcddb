// SPDX-License-Identifier: Apache-2.0
// A log within its limit: head and newest part stay, what lies between is marked, also where files can have no holes.
#include "launcher/agent/log_limit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "common/base/atomic_file.h"
#include "launcher/agent/log_tee.h"

namespace dl::agent {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(LogCut, NothingIsCutWithinTheLimit) {
  EXPECT_EQ(plan_cut(0, 100 * kMiB, 0).to, 0U);
  EXPECT_EQ(plan_cut(8 * kMiB, 8 * kMiB, 0).to, 0U);
}

TEST(LogCut, HeadAndNewestPartStayAndUnitsAreWhole) {
  const Cut cut = plan_cut(8 * kMiB, 8 * kMiB + 1, 0);
  EXPECT_EQ(cut.head, 2 * kMiB);
  EXPECT_EQ(cut.to, 3 * kMiB);
  EXPECT_EQ(plan_cut(uint64_t{1} << 40, 1, 0).head, kMostHead);
  // It never keeps more than the limit, never less than half of it, and never goes back.
  uint64_t dropped = 0, cuts = 0;
  for (uint64_t size = 0; size < 200 * kMiB; size += 70'001) {
    const Cut next = plan_cut(8 * kMiB, size, dropped);
    if (next.to == 0) continue;
    ++cuts;
    EXPECT_GT(next.to, dropped);
    EXPECT_EQ(next.to % kCutUnit, 0U);
    dropped = next.to;
    const uint64_t kept = next.head + size - next.to;
    EXPECT_LE(kept, 8 * kMiB);
    EXPECT_GE(kept, 4 * kMiB);
  }
  EXPECT_LT(cuts, 200U);
}

class LogLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-limit-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0); }
  std::string log() const { return folder_ + "/log"; }
  static std::string line(int i) {
    std::string text = "line " + std::to_string(i);
    text.resize(1023, '.');
    return text + "\n";
  }
  std::string text() const {
    auto read = read_small_file(log(), 64 << 20);
    return read ? *read : read.error().text;
  }
  off_t blocks() const {
    struct stat status = {};
    return ::stat(log().c_str(), &status) == 0 ? status.st_blocks * 512 : -1;
  }

  std::string folder_;
};

TEST_F(LogLimitTest, TheMiddleIsGivenBackAndMarked) {
  LogTee tee;
  ASSERT_TRUE(tee.open(log(), -1, "", 8 * kMiB));
  constexpr int kLines = 30 * 1024;
  for (int i = 0; i < kLines; ++i) tee.feed(line(i));
  const std::string all = text();
  ASSERT_EQ(all.size(), 30 * kMiB) << "every byte that stays keeps its place";
  EXPECT_EQ(tee.log_bytes(), all.size());
  EXPECT_EQ(all.substr(0, 1024), line(0));
  EXPECT_EQ(all.substr(all.size() - 1024), line(kLines - 1));
  const size_t hole = all.find('\0'), after = all.find_first_not_of('\0', hole);
  if (blocks() > static_cast<off_t>(20 * kMiB)) GTEST_SKIP() << "no holes in files here";
  EXPECT_LE(blocks(), static_cast<off_t>(8 * kMiB + 65536));
  EXPECT_EQ(hole, 2 * kMiB);
  EXPECT_EQ(after % kMiB, 0U);
  EXPECT_EQ(all.substr(after, 1024), line(static_cast<int>(after / 1024)));
  const std::string mark = "\ndl-agent: " + std::to_string(after - hole + 128) + " bytes of output were dropped here";
  EXPECT_EQ(all.substr(hole - 128, mark.size()), mark);
  EXPECT_EQ(all[hole - 1], '\n');
}

TEST_F(LogLimitTest, WithoutHolesTheNewestPartMoves) {
  const UniqueFd fd(::open(log().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644));
  LogLimit limit;
  limit.begin(log(), 8 * kMiB, 0, [](int, off_t, off_t) {
    errno = EOPNOTSUPP;
    return -1;
  });
  constexpr int kLines = 30 * 1024;
  for (int i = 0; i < kLines; ++i) {
    ASSERT_EQ(::write(fd.get(), line(i).data(), 1024), 1024);
    limit.grew(1024);
  }
  const std::string all = text();
  EXPECT_EQ(all.size(), limit.size());
  EXPECT_LE(all.size(), 8 * kMiB);
  EXPECT_GE(all.size(), 6 * kMiB);
  EXPECT_EQ(all.substr(0, 1024), line(0));
  EXPECT_EQ(all.substr(all.size() - 1024), line(kLines - 1));
  EXPECT_EQ(all.find('\0'), std::string::npos);
  const uint64_t dropped = 30 * kMiB - all.size() + 128;
  EXPECT_NE(all.find("\ndl-agent: " + std::to_string(dropped) + " bytes of output were dropped here"),
            std::string::npos);
}

TEST_F(LogLimitTest, ALogThatCannotBeCutGrowsOn) {
  const UniqueFd fd(::open(log().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644));
  LogLimit limit;
  limit.begin(log(), 8 * kMiB, 0, [](int, off_t, off_t) {
    errno = EIO;
    return -1;
  });
  for (int i = 0; i < 10 * 1024; ++i) {
    ASSERT_EQ(::write(fd.get(), line(i).data(), 1024), 1024);
    limit.grew(1024);
  }
  const std::string all = text();
  ASSERT_EQ(all.size(), 10 * kMiB);
  EXPECT_EQ(all.substr(5 * kMiB, 1024), line(5 * 1024));
}

}  // namespace
}  // namespace dl::agent
