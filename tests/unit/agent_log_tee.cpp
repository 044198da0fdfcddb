// SPDX-License-Identifier: Apache-2.0
// A learner's log on a disk that is full, and has room again: nothing is lost without a word.
#include "launcher/agent/log_tee.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "common/base/atomic_file.h"
#include "common/base/unique_fd.h"

namespace dl::agent {
namespace {

// The largest size of a file stands for a full disk: writing beyond it fails, too.
class FullDiskLogTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-tee-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    before_ = ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit_), 0);
  }
  void TearDown() override {
    room_for(limit_.rlim_cur);
    ::signal(SIGXFSZ, before_);
    ASSERT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0);
  }
  void room_for(rlim_t bytes) const {
    const rlimit now{bytes, limit_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  std::string log() const { return folder_ + "/log"; }
  std::string text() const {
    auto read = read_small_file(log(), 1 << 20);
    return read ? *read : read.error().text;
  }

  std::string folder_;
  rlimit limit_{};
  void (*before_)(int) = nullptr;
};

TEST_F(FullDiskLogTest, ACompleteLogHasLostNothing) {
  LogTee tee;
  ASSERT_TRUE(tee.open(log(), -1, ""));
  tee.feed("step 1\n");
  EXPECT_EQ(tee.lost().bytes, 0);
  EXPECT_EQ(tee.lost().error, "");
  EXPECT_EQ(text(), "step 1\n");
}

TEST_F(FullDiskLogTest, WhatIsMissingIsCountedAndMarkedWhereThereIsRoomAgain) {
  LogTee tee;
  ASSERT_TRUE(tee.open(log(), -1, ""));
  room_for(8);
  tee.feed("step 1\nstep 2\n");  // eight bytes of it fit
  EXPECT_EQ(tee.lost().bytes, 6);
  EXPECT_EQ(tee.lost().error, "write " + log() + ": File too large");
  tee.feed("step 3\n");
  EXPECT_EQ(tee.lost().bytes, 13);
  room_for(limit_.rlim_cur);
  tee.feed("step 4\n");
  tee.feed("step 5\n");
  EXPECT_EQ(tee.lost().bytes, 13);
  EXPECT_EQ(text(),
            "step 1\ns\ndl-agent: 13 bytes are missing here: write " + log() + ": File too large\nstep 4\nstep 5\n");
}

TEST_F(FullDiskLogTest, OutputThatHasNoRoomIsKnownAndGoesOnWhereThereIsAgain) {
  const std::string path = folder_ + "/out";
  const UniqueFd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  LogTee tee;
  ASSERT_TRUE(tee.open(log(), out.get(), ""));
  tee.feed("1\n");
  EXPECT_EQ(tee.lost().output, "");
  room_for(2);
  tee.feed("2\n");
  EXPECT_EQ(tee.lost().output, "standard output: File too large");
  room_for(limit_.rlim_cur);
  tee.feed("3\n");
  const auto read = read_small_file(path, 100);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, "1\n3\n");
}

}  // namespace
}  // namespace dl::agent
