// SPDX-License-Identifier: Apache-2.0
// The file of the progress page goes with its agent, however the agent ends.
#include "launcher/protocol/progress_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace {

using dl::protocol::ProgressFile;

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

TEST(ProgressFile, IsRemovedWithItsOwner) {
  std::string path;
  {
    ProgressFile page;
    ASSERT_TRUE(page.create(3));
    path = page.path();
    EXPECT_TRUE(exists(path));
  }
  EXPECT_FALSE(exists(path));
}

TEST(ProgressFile, OfAnAgentThatWasKilledIsRemovedAndThatOfALivingOneStays) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ProgressFile page;
    const std::string path = page.create(1) ? page.path() : "";
    if (::write(ends[1], path.data(), path.size()) < 0) ::_exit(1);
    ::raise(SIGKILL);
  }
  char text[512];
  const ssize_t n = ::read(ends[0], text, sizeof text);
  ASSERT_GT(n, 0);
  const std::string left(text, static_cast<size_t>(n));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(exists(left));
  ProgressFile own;
  ASSERT_TRUE(own.create(1));  // which looks for such
  EXPECT_FALSE(exists(left));
  dl::protocol::remove_orphaned_pages();
  EXPECT_TRUE(exists(own.path()));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
