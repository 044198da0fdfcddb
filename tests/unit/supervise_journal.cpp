// SPDX-License-Identifier: Apache-2.0
// What is written down of a run while its disk is full for a while.
#include "launcher/supervise/journal.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
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

}  // namespace
}  // namespace dl::supervise
