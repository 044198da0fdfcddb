// SPDX-License-Identifier: Apache-2.0
// Logs line by line and in order of time: hostile ones, ones that grow, and ones of which a part was dropped.
#include "launcher/logs/merge.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/logs_support.h"

namespace dl::logs {
namespace {

using Texts = std::vector<std::string>;
constexpr int64_t kBase = 1'790'000'000'000;

class LineReaderTest : public JobLogs {};

TEST_F(LineReaderTest, LinesBeginWhereTheyAreAskedFor) {
  write(0, "one\ntwo\nthree\nfour");
  EXPECT_EQ(lines(0), (Texts{"one", "two", "three", "four"}));
  EXPECT_EQ(lines(0, 4), (Texts{"two", "three", "four"}));
  EXPECT_EQ(lines(0, 5), (Texts{"three", "four"})) << "from within a line: the next one";
  EXPECT_EQ(lines(0, 0, 4), Texts{"one"});
  EXPECT_EQ(lines(0, 0, 5), (Texts{"one", "two"})) << "a line that begins before the end is whole";
  EXPECT_EQ(lines(0, 99), Texts{});
  for (size_t block = 1; block < 20; ++block) EXPECT_EQ(lines(0, 4, 9, block), (Texts{"two", "three"})) << block;
}

TEST_F(LineReaderTest, NulsBarsEscapesAndBytesThatAreNoTextStayWhatTheyAre) {
  const std::string nul("a\0b\0", 4);
  write(0, nul + "\n10%\r20%\r\n\xff\xfe\xc3\n\x1b]0;title\x07\x1b[2J\n" + std::string(200'000, '\0') + "\n");
  EXPECT_EQ(lines(0),
            (Texts{nul, "10%\r20%\r", "\xff\xfe\xc3", "\x1b]0;title\x07\x1b[2J", std::string(200'000, '\0')}));
}

TEST_F(LineReaderTest, AHundredMegabytesWithoutANewlineComeInParts) {
  {
    const UniqueFd fd(::open(path(0).c_str(), O_WRONLY | O_CREAT, 0644));
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 100; ++i) ASSERT_EQ(::write(fd.get(), piece.data(), piece.size()), 1 << 20);
  }
  LineReader reader(root_, relative(0), 0, true);
  std::deque<std::string> some;
  uint64_t bytes = 0;
  size_t largest = 0;
  for (;;) {
    const Result<bool> done = reader.read(UINT64_MAX, 65536, &some);
    ASSERT_TRUE(done);
    EXPECT_LE(some.size(), 1U);
    for (const std::string& line : some) bytes += line.size(), largest = std::max(largest, line.size());
    some.clear();
    if (*done) break;
  }
  EXPECT_EQ(bytes + reader.take_rest().size(), 100U << 20);
  EXPECT_LE(largest, kMostLine);
}

TEST_F(LineReaderTest, WhatIsAppendedIsGivenLater) {
  write(0, "one\ntw");
  for (const bool open : {true, false}) {
    write(1, "one\ntw");
    LineReader reader(root_, relative(1), 0, open);
    std::deque<std::string> some;
    while (!*reader.read(UINT64_MAX, 4096, &some)) {
    }
    EXPECT_EQ(some, std::deque<std::string>{"one"});
    EXPECT_TRUE(reader.at_end());
    {
      const UniqueFd fd(::open(path(1).c_str(), O_WRONLY | O_APPEND));
      ASSERT_EQ(::write(fd.get(), "o\nthree", 7), 7);
    }
    some.clear();
    while (!*reader.read(UINT64_MAX, 4096, &some)) {
    }
    EXPECT_EQ(some, std::deque<std::string>{"two"});
    EXPECT_EQ(reader.take_rest(), "three");
    EXPECT_EQ(reader.take_rest(), "");
  }
}

TEST_F(LineReaderTest, ALogThatBecameShorterIsReadOnFromItsEnd) {
  write(0, "one\ntwo\nthree\n");
  LineReader reader(root_, relative(0), 0, true);
  std::deque<std::string> some;
  while (!*reader.read(UINT64_MAX, 4096, &some)) {
  }
  ASSERT_EQ(::truncate(path(0).c_str(), 4), 0);
  some.clear();
  ASSERT_TRUE(*reader.read(UINT64_MAX, 4096, &some));
  const UniqueFd fd(::open(path(0).c_str(), O_WRONLY | O_APPEND));
  ASSERT_EQ(::write(fd.get(), "new\n", 4), 4);
  while (!*reader.read(UINT64_MAX, 4096, &some)) {
  }
  EXPECT_EQ(some, std::deque<std::string>{"new"});
}

TEST_F(LineReaderTest, ADroppedPartIsPassedOver) {
  std::string text = "first\n" + std::string((1 << 20) - 6 - 6, 'a') + "\nmark\n";
  ASSERT_EQ(text.size(), 1U << 20);
  text += std::string(3 << 20, '\0') + "tail\nlast\n";
  write(0, text);
  const UniqueFd fd(::open(path(0).c_str(), O_WRONLY));
  if (::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 3 << 20) != 0)
    GTEST_SKIP() << "no holes in files here";
  for (const size_t block : {size_t{65536}, size_t{5000}}) {
    const Texts all = lines(0, 0, UINT64_MAX, block);
    ASSERT_EQ(all.size(), 5U);
    EXPECT_EQ(all[0], "first");
    EXPECT_EQ(all[2], "mark");
    EXPECT_EQ(all[3], "tail");
    EXPECT_EQ(lines(0, 2 << 20, UINT64_MAX, block), (Texts{"tail", "last"}));
  }
  auto file = LogFile::open(root_, relative(0));
  ASSERT_TRUE(file);
  EXPECT_EQ(lines(0, *tail_begin(&*file, 1)), Texts{"last"});
  EXPECT_EQ(lines(0, *tail_begin(&*file, 2)), (Texts{"tail", "last"}));
  EXPECT_EQ(lines(0, *tail_begin(&*file, 3)), (Texts{"mark", "tail", "last"}));
}

TEST_F(LineReaderTest, TheLastLinesBeginWhereTheyDo) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "line " + std::to_string(i) + "\n";
  write(0, text);
  auto file = LogFile::open(root_, relative(0));
  ASSERT_TRUE(file);
  EXPECT_EQ(text.substr(*tail_begin(&*file, 2)), "line 49998\nline 49999\n");
  EXPECT_EQ(*tail_begin(&*file, 49'999), 7U);
  EXPECT_EQ(*tail_begin(&*file, 50'000), 0U);
  EXPECT_EQ(*tail_begin(&*file, 1'000'000), 0U);
  EXPECT_EQ(*tail_begin(&*file, 0), text.size());
  write(1, "a\nb");
  auto unfinished = LogFile::open(root_, relative(1));
  EXPECT_EQ(*tail_begin(&*unfinished, 1), 2U);
  write(2, "");
  auto empty = LogFile::open(root_, relative(2));
  EXPECT_EQ(*tail_begin(&*empty, 3), 0U);
}

TEST_F(LineReaderTest, NothingButARegularFileOfTheJobIsRead) {
  ASSERT_EQ(::symlink("/etc/hostname", path(0).c_str()), 0);
  EXPECT_FALSE(LogFile::open(root_, relative(0)));
  ASSERT_EQ(::mkfifo(path(1).c_str(), 0600), 0);
  EXPECT_FALSE(LogFile::open(root_, relative(1)));
  EXPECT_EQ(LogFile::open(root_, relative(2)).error().code, Errc::kNotFound);
}

class MergeTest : public JobLogs {
 protected:
  Texts merged(const LogIndex& index, const std::vector<Part>& parts, bool alike = true,
               const std::function<bool(const std::string&)>& keep = {}) {
    Texts all;
    Merger merger(root_, 1, &index, how(&all, alike, keep));
    for (const Part& part : parts) merger.add(part);
    const auto any = merger.run();
    if (!any) all.push_back(any.error().text);
    merger.finish();
    return all;
  }
  static Merger::How how(Texts* all, bool alike = true, const std::function<bool(const std::string&)>& keep = {}) {
    return {alike,
            keep,
            [all](const std::vector<int>& ranks, const std::string& line) {
              all->push_back("[" + ranks_text(ranks) + "] " + line);
            },
            {}};
  }
  static LogIndex index_of(const std::vector<Mark>& marks) {
    std::string text = index_header(kBase);
    for (const Mark& mark : marks) text += index_entry(kBase, mark);
    return *LogIndex::parse(text);
  }
};

TEST_F(MergeTest, LinesComeInOrderOfTimeAndAlikeOnesOnce) {
  write(0, "start\nzero at 3\nzero at 9\n");
  write(1, "start\none at 6\n");
  const LogIndex index = index_of({{kBase + 1000, 0, 6},
                                   {kBase + 1000, 1, 6},
                                   {kBase + 3000, 0, 16},
                                   {kBase + 6000, 1, 15},
                                   {kBase + 9000, 0, 26}});
  EXPECT_EQ(merged(index, {{0}, {1}}), (Texts{"[0-1] start", "[0] zero at 3", "[1] one at 6", "[0] zero at 9"}));
  EXPECT_EQ(merged(index, {{1}, {0}}, false),
            (Texts{"[0] start", "[1] start", "[0] zero at 3", "[1] one at 6", "[0] zero at 9"}));
  EXPECT_EQ(merged(index, {{0, 6, 16}, {1, 6}}), (Texts{"[0] zero at 3", "[1] one at 6"}));
  EXPECT_EQ(merged(index, {{0}, {1}}, true, [](const std::string& line) { return line.find("at") != line.npos; }),
            (Texts{"[0] zero at 3", "[1] one at 6", "[0] zero at 9"}));
}

TEST_F(MergeTest, LogsBeyondTheIndexAndUnfinishedLinesAreShownToo) {
  write(0, "a\nb\nc");
  write(1, "a\n");
  EXPECT_EQ(merged(index_of({{kBase + 1000, 0, 2}}), {{0}, {1}}), (Texts{"[0-1] a", "[0] b", "[0] c"}));
  EXPECT_EQ(merged(LogIndex(), {{0}, {1}}), (Texts{"[0-1] a", "[0] b", "[0] c"}));
  EXPECT_EQ(merged(index_of({{kBase + 1000, 0, 9999}}), {{0}, {1}}), (Texts{"[0-1] a", "[0] b", "[0] c"}));
}

TEST_F(MergeTest, MoreLogsThanDescriptorsAndEachLineOfAll) {
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit few = {80, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Part> parts;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "epoch " + std::to_string(i) + "\n";
  for (int rank = 0; rank < 300; ++rank) {
    write(rank, text);
    parts.push_back({rank});
  }
  const Texts all = merged(LogIndex(), parts);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(all.size(), 3000U);
  EXPECT_EQ(all[0], "[0-299] epoch 0");
  EXPECT_EQ(all[2999], "[0-299] epoch 2999");
}

TEST_F(MergeTest, WhatGrowsIsFollowedAndNewLearnersJoin) {
  write(0, "a\n");
  Texts all;
  const LogIndex index;
  Merger merger(root_, 1, &index, how(&all));
  EXPECT_TRUE(merger.empty());
  merger.add({0});
  EXPECT_TRUE(merger.has(0));
  EXPECT_FALSE(merger.has(1));
  EXPECT_TRUE(*merger.run());
  EXPECT_FALSE(*merger.run());
  write(1, "b\n");
  merger.add({1});
  {
    const UniqueFd fd(::open(path(0).c_str(), O_WRONLY | O_APPEND));
    ASSERT_EQ(::write(fd.get(), "b\nc", 3), 3);
  }
  EXPECT_TRUE(*merger.run());
  EXPECT_EQ(all, (Texts{"[0] a", "[0-1] b"}));
  merger.finish();
  EXPECT_EQ(all.back(), "[0] c");
}

TEST_F(MergeTest, ALogThatCannotBeReadIsSaid) {
  write(0, "a\n");
  EXPECT_NE(merged(LogIndex(), {{0}, {7}}).front().find("learner-7.log"), std::string::npos);
}

}  // namespace
}  // namespace dl::logs
