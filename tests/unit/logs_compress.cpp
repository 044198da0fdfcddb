// SPDX-License-Identifier: Apache-2.0
// Compressed logs: the same bytes at the same places, by our reader and by zstd's own; damage is said, never guessed.
#include "launcher/logs/compress.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "launcher/logs/frames.h"
#include "tests/unit/logs_support.h"

namespace dl::logs {
namespace {

class CompressTest : public JobLogs {
 protected:
  static std::string some_text(size_t bytes) {
    std::mt19937 random(5);
    std::string text;
    while (text.size() < bytes)
      text += "step " + std::to_string(random()) + " loss " + std::to_string(random() % 100) + "\n";
    text.resize(bytes);
    return text;
  }
  std::string packed(int rank) const { return path(rank) + kPackedSuffix; }
  static bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
  std::string all_of(int rank) const {
    auto file = LogFile::open(root_, relative(rank));
    if (!file) return file.error().text;
    std::string text, block;
    for (uint64_t at = 0;; at += block.size()) {
      if (Status read = file->read(&at, 100'000, &block); !read) return read.error().text;
      if (block.empty()) return text;
      text += block;
    }
  }
};

TEST_F(CompressTest, TheLogIsTheSameAndKeepsItsTimeAndMode) {
  const std::string text = some_text((3 << 20) + 12345);
  write(0, text);
  ASSERT_EQ(::chmod(path(0).c_str(), 0640), 0);
  const struct timespec times[] = {{1'790'000'000, 0}, {1'790'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path(0).c_str(), times, 0), 0);
  ASSERT_TRUE(compress_log(path(0)));
  EXPECT_FALSE(exists(path(0)));
  struct stat status = {};
  ASSERT_EQ(::stat(packed(0).c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'790'000'000);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
  EXPECT_LT(status.st_size, static_cast<off_t>(text.size() / 2));
  EXPECT_EQ(all_of(0), text);
  auto file = LogFile::open(root_, relative(0));
  ASSERT_TRUE(file);
  EXPECT_EQ(*file->size(), text.size());
  for (const uint64_t at : {uint64_t{0}, uint64_t{1 << 20}, uint64_t{(2 << 20) - 3}, uint64_t{text.size() - 5}}) {
    uint64_t from = at;
    std::string block;
    ASSERT_TRUE(file->read(&from, 5, &block));
    EXPECT_EQ(from, at);
    EXPECT_EQ(block, text.substr(at, block.size()));
    EXPECT_FALSE(block.empty());
  }
  const std::string own = "command -v zstd >/dev/null || exit 0; zstd -dcq '" + packed(0) + "' >'" + root_ + "/own'";
  ASSERT_EQ(std::system(own.c_str()), 0);
  if (exists(root_ + "/own")) {
    EXPECT_EQ(*read_small_file(root_ + "/own", 8 << 20), text);
  }
}

TEST_F(CompressTest, LinesAndTheLastOfThemAreFoundInIt) {
  std::string text = some_text(3 << 20);
  text.resize(text.rfind('\n') + 1);
  write(0, text);
  const auto before = lines(0, 1'500'000, 1'600'000);
  ASSERT_TRUE(compress_log(path(0)));
  EXPECT_EQ(lines(0, 1'500'000, 1'600'000), before);
  auto file = LogFile::open(root_, relative(0));
  ASSERT_TRUE(file);
  const uint64_t at = *tail_begin(&*file, 1);
  EXPECT_EQ(at, text.rfind('\n', text.size() - 2) + 1);
}

TEST_F(CompressTest, WhatIsSmallOrNoFileOrWasInterruptedStays) {
  write(0, "short\n");
  EXPECT_TRUE(compress_log(path(0)));
  EXPECT_TRUE(exists(path(0)));
  write(1, some_text(1 << 20));
  ASSERT_EQ(::symlink(path(1).c_str(), path(2).c_str()), 0);
  EXPECT_FALSE(compress_log(path(2)));
  const std::atomic<bool> stop{true};
  EXPECT_EQ(compress_log(path(1), &stop).error().code, Errc::kBusy);
  EXPECT_TRUE(exists(path(1)));
  EXPECT_FALSE(exists(packed(1)));
  EXPECT_FALSE(exists(packed(1) + ".tmp"));
  // What a killed process left behind is in nobody's way.
  ASSERT_TRUE(replace_file(packed(1) + ".tmp", "rubbish"));
  EXPECT_TRUE(compress_log(path(1)));
  EXPECT_EQ(all_of(1), some_text(1 << 20));
}

TEST_F(CompressTest, AttemptsUpToTheLastAreCompressedAndTheFirstFailureIsSaid) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const record::JobDir dir(root_);
    ASSERT_TRUE(make_directories(dir.attempt_logs(attempt)));
    for (int rank = 0; rank < 2; ++rank) ASSERT_TRUE(replace_file(dir.learner_log(attempt, rank), some_text(100'000)));
  }
  ASSERT_TRUE(replace_file(folder() + "/index.bin", some_text(100'000)));
  ASSERT_TRUE(make_directories(packed(0) + ".tmp"));  // so that this one fails
  EXPECT_FALSE(compress_attempts(root_ + "/logs", 2));
  EXPECT_TRUE(exists(path(0)));
  EXPECT_TRUE(exists(packed(1)));
  EXPECT_TRUE(exists(root_ + "/logs/attempt-2/learner-1.log.zst"));
  EXPECT_TRUE(exists(root_ + "/logs/attempt-3/learner-1.log"));
  EXPECT_TRUE(exists(folder() + "/index.bin"));
}

TEST_F(CompressTest, DamageIsSaid) {
  write(0, some_text(2 << 20));
  ASSERT_TRUE(compress_log(path(0)));
  const std::string good = *read_small_file(packed(0), 8 << 20);
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    std::string bad = good;
    if (round % 3 == 0)
      bad.resize(random() % bad.size());
    else
      for (int i = 0; i < 3; ++i)
        bad[bad.size() - 1 - random() % (round % 3 == 1 ? 33 : bad.size())] ^= static_cast<char>(1 + random() % 255);
    ASSERT_TRUE(replace_file(packed(0), bad));
    const std::string text = all_of(0);
    if (bad != good) {
      EXPECT_NE(text.find("is damaged"), std::string::npos) << round << ": " << text.substr(0, 100);
    }
  }
}

TEST_F(CompressTest, ADroppedPartIsPassedOverInItToo) {
  const std::string head = some_text(1 << 20), tail = some_text(5000);
  write(0, head + std::string(5 << 20, '\0') + tail);
  ASSERT_TRUE(compress_log(path(0)));
  EXPECT_EQ(all_of(0), head + tail);
}

TEST(FramesTest, ATableIsReadBackAndRubbishIsRefused) {
  const std::string table = format_seek_table({{10, 100}, {20, 200}});
  const std::string footer = table.substr(table.size() - kSeekFooter);
  EXPECT_EQ(seek_table_bytes(footer, 1000), table.size());
  EXPECT_EQ(seek_table_bytes(footer, table.size() - 1), std::nullopt);
  const auto frames = parse_seek_table(table);
  ASSERT_TRUE(frames);
  ASSERT_EQ(frames->size(), 2U);
  EXPECT_EQ((*frames)[1].packed, 20U);
  EXPECT_EQ((*frames)[1].bytes, 200U);
  EXPECT_FALSE(parse_seek_table(table.substr(1)));
  EXPECT_FALSE(parse_seek_table(""));
  EXPECT_FALSE(parse_seek_table(std::string(table.size(), '\xff')));
  EXPECT_EQ(format_seek_table({}).size(), 17U);
}

}  // namespace
}  // namespace dl::logs
