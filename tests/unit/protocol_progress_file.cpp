// SPDX-License-Identifier: Apache-2.0
// The file of the progress page goes with its agent, however the agent ends.
#include "launcher/protocol/progress_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <fstream>

#include "common/contract/progress_page.h"

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

// What the learner's side reads.
uint32_t stop_asked(const ProgressFile& page) {
  std::ifstream file(page.path(), std::ios::binary);
  uint32_t asked = 7;
  file.seekg(offsetof(dl::ProgressPage, stop_asked));
  file.read(reinterpret_cast<char*>(&asked), sizeof asked);
  return asked;
}

TEST(ProgressFile, AStopThatWasWithdrawnSinceTrainingIsOverStaysKnownToTheLearner) {
  ProgressFile page;
  ASSERT_TRUE(page.create(0));
  page.request(dl::ProgressPage::kSave);
  page.withdraw();
  EXPECT_EQ(stop_asked(page), 0U);
  page.request(dl::ProgressPage::kSaveAndExit);
  page.withdraw();
  EXPECT_EQ(stop_asked(page), 1U);
}

}  // namespace
