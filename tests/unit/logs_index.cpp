// SPDX-License-Identifier: Apache-2.0
// The time index of logs: what it finds, what it makes of damage, and what stands in for it where it is lost.
#include "launcher/logs/log_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "launcher/logs/index_writer.h"
#include "launcher/logs/read_index.h"
#include "tests/unit/logs_support.h"

namespace dl::logs {
namespace {

constexpr int64_t kBase = 1'790'000'000'000;

std::string index_of(const std::vector<Mark>& marks) {
  std::string text = index_header(kBase);
  for (const Mark& mark : marks) text += index_entry(kBase, mark);
  return text;
}

TEST(LogIndexTest, AnEntryIsWhatTheFormatSays) {
  EXPECT_EQ(index_header(0x0102), std::string("DLLOGIX1\x02\x01\0\0\0\0\0\0", 16));
  EXPECT_EQ(index_entry(1000, {3100, 7, 0x010203}), std::string("\x15\0\0\0\x07\0\0\0\x03\x02\x01\0\0\0\0\0", 16));
}

TEST(LogIndexTest, PlacesAreFoundByTimeAndTimesByPlace) {
  const auto index = LogIndex::parse(
      index_of({{kBase + 1000, 0, 100}, {kBase + 1000, 1, 50}, {kBase + 2000, 0, 300}, {kBase + 5000, 0, 400}}));
  ASSERT_TRUE(index);
  EXPECT_EQ(index->offset_at(0, kBase), 0U);
  EXPECT_EQ(index->offset_at(0, kBase + 1000), 0U);
  EXPECT_EQ(index->offset_at(0, kBase + 1500), 100U);
  EXPECT_EQ(index->offset_at(0, kBase + 9000), 400U);
  EXPECT_EQ(index->offset_at(1, kBase + 9000), 50U);
  EXPECT_EQ(index->end_at(0, kBase + 1500), 300U);
  EXPECT_EQ(index->end_at(0, kBase + 2000), 300U);
  EXPECT_EQ(index->end_at(0, kBase + 9000), UINT64_MAX);
  EXPECT_EQ(index->time_of(0, 0), kBase + 1000);
  EXPECT_EQ(index->time_of(0, 100), kBase + 2000);
  EXPECT_EQ(index->time_of(0, 400), INT64_MAX);
  EXPECT_EQ(index->first_ms(), kBase + 1000);
  EXPECT_EQ(index->last_ms(), kBase + 5000);
  EXPECT_FALSE(index->knows(2));
  EXPECT_EQ(index->offset_at(2, kBase), 0U);
  EXPECT_EQ(index->end_at(2, kBase), UINT64_MAX);
}

TEST(LogIndexTest, ATornLastEntryIsLeftOut) {
  const std::string text = index_of({{kBase + 1000, 0, 100}, {kBase + 2000, 0, 200}});
  for (size_t cut = 1; cut <= kIndexEntry; ++cut) {
    const auto index = LogIndex::parse(text.substr(0, text.size() - cut));
    ASSERT_TRUE(index);
    EXPECT_EQ(index->offset_at(0, kBase + 9000), 100U) << cut;
  }
}

TEST(LogIndexTest, ALogThatWasBegunAnewCountsFromThere) {
  const auto index = LogIndex::parse(index_of({{kBase + 1000, 0, 900}, {kBase + 2000, 0, 10}, {kBase + 3000, 0, 30}}));
  ASSERT_TRUE(index);
  EXPECT_EQ(index->offset_at(0, kBase + 2500), 10U);
  EXPECT_EQ(index->time_of(0, 0), kBase + 2000);
}

TEST(LogIndexTest, WhatIsNoIndexIsRefused) {
  for (const std::string& text : {std::string(), std::string("DLLOGIX1"), std::string("DLLOGIX2........"),
                                  std::string(16, '\0'), "DLLOGIX1" + std::string(8, '\xff')})
    EXPECT_FALSE(LogIndex::parse(text)) << text;
  EXPECT_EQ(thin_index("rubbish"), "");
}

// Whatever bytes lie in it: no rank of four billion takes the memory, and the answers stay within what was written.
TEST(LogIndexTest, DamageCostsTheIndexAlone) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text = index_of({{kBase + 1000, 0, 100}, {kBase + 1000, 3, 100}, {kBase + 2000, 0, 200}});
    for (int i = 0; i < 6; ++i) text[8 + random() % (text.size() - 8)] = static_cast<char>(random());
    text.resize(text.size() - random() % 20);
    const auto index = LogIndex::parse(text);
    if (!index) continue;
    for (int rank = 0; rank < 5; ++rank) {
      EXPECT_LE(index->offset_at(rank, kBase + 1500), index->offset_at(rank, kBase + 9000));
      index->time_of(rank, 150);
    }
    EXPECT_LE(thin_index(text).size(), text.size());
  }
  const auto far = LogIndex::parse(index_of({{kBase, kMostRank + 1, 5}, {kBase, 0, 5}}));
  ASSERT_TRUE(far);
  EXPECT_FALSE(far->knows(kMostRank + 1));
  EXPECT_TRUE(far->knows(0));
}

TEST(LogIndexTest, ThinningKeepsTheNewestOfEachRank) {
  std::vector<Mark> marks;
  for (int i = 1; i <= 9; ++i)
    for (int rank = 0; rank < 3; ++rank)
      if (rank < 2 || i == 1) marks.push_back({kBase + i * 1000, rank, static_cast<uint64_t>(i) * 10});
  const std::string thin = thin_index(index_of(marks));
  const auto index = LogIndex::parse(thin);
  ASSERT_TRUE(index);
  EXPECT_EQ((thin.size() - kIndexHeader) / kIndexEntry, 11U);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(index->offset_at(rank, kBase + 99000), 90U);
    EXPECT_EQ(index->offset_at(rank, kBase + 8500), 70U);
  }
  EXPECT_EQ(index->offset_at(2, kBase + 99000), 10U);
}

class IndexFileTest : public JobLogs {
 protected:
  std::string file() const { return folder() + "/" + kIndexName; }
  LogIndex read(const std::vector<int>& ranks = {}, int64_t begin_ms = 0) const {
    return read_index(root_, 1, ranks, begin_ms);
  }
};

TEST_F(IndexFileTest, WhatIsWrittenIsReadAndAClockThatIsSetBackDoesNotDisorderIt) {
  IndexWriter writer(file(), kBase);
  ASSERT_TRUE(writer.append({{kBase + 2000, 0, 10}, {kBase + 2000, 1, 20}}));
  ASSERT_TRUE(writer.append({{kBase + 1000, 0, 30}}));
  ASSERT_TRUE(writer.append({}));
  const LogIndex index = read();
  EXPECT_EQ(index.offset_at(0, kBase + 2001), 30U);
  EXPECT_EQ(index.offset_at(1, kBase + 2001), 20U);
  EXPECT_EQ(index.last_ms(), kBase + 2000);
}

TEST_F(IndexFileTest, ItStaysWithinItsLimit) {
  IndexWriter writer(file(), kBase, 4096);
  for (int i = 1; i <= 5000; ++i) ASSERT_TRUE(writer.append({{kBase + i * 1000, i % 4, static_cast<uint64_t>(i)}}));
  struct stat status = {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_LE(status.st_size, 4096);
  const LogIndex index = read();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(index.offset_at(rank, kBase + 9'000'000), rank == 0 ? 5000U : 4996U + static_cast<unsigned>(rank));
}

TEST_F(IndexFileTest, AFailedWriteIsDoneAgainAndLeavesNothingTorn) {
  IndexWriter writer(root_ + "/none/index.bin", kBase);
  EXPECT_FALSE(writer.append({{kBase + 1000, 0, 10}}));
  ASSERT_TRUE(make_directories(root_ + "/none"));
  EXPECT_TRUE(writer.append({{kBase + 2000, 0, 20}}));
  ASSERT_EQ(::symlink("/tmp/dl-no-such-file", file().c_str()), 0);
  IndexWriter linked(file(), kBase);
  EXPECT_FALSE(linked.append({{kBase + 1000, 0, 10}})) << "a link is not followed";
}

TEST_F(IndexFileTest, OfALogWithoutIndexTheTimesAreEstimated) {
  write(0, std::string(100'000, 'x'));
  write(1, std::string(500, 'x'));
  write(2, "");
  const int64_t end = kBase + 100'000;
  for (int rank = 0; rank < 2; ++rank) {
    const struct timespec times[] = {{end / 1000, 0}, {end / 1000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path(rank).c_str(), times, 0), 0);
  }
  const LogIndex index = read({0, 1, 2, 3}, kBase);
  EXPECT_NEAR(static_cast<double>(index.offset_at(0, kBase + 50'000)), 50'000, 200);
  EXPECT_NEAR(static_cast<double>(index.time_of(0, 25'000) - kBase), 25'000, 200);
  EXPECT_NEAR(static_cast<double>(index.offset_at(1, kBase + 50'000)), 250, 2);
  EXPECT_FALSE(index.knows(2));
  EXPECT_FALSE(index.knows(3));
  // Where nobody knows when it began, all of it is of its last change.
  EXPECT_EQ(read({0}).time_of(0, 10), end);
  // A damaged index is no other case.
  ASSERT_TRUE(replace_file(file(), "rubbish"));
  EXPECT_NEAR(static_cast<double>(read({0}, kBase).offset_at(0, kBase + 50'000)), 50'000, 200);
}

}  // namespace
}  // namespace dl::logs
