// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/base/parse.h"
#include "common/base/shell_word.h"

namespace dl {
namespace {

struct DurationCase {
  const char* text;
  int64_t seconds;  // -1: refused
};

class DurationTable : public testing::TestWithParam<DurationCase> {};

TEST_P(DurationTable, is_read_as_people_and_slurm_write_it) {
  auto got = parse_duration(GetParam().text);
  if (GetParam().seconds < 0) {
    ASSERT_FALSE(got) << GetParam().text;
    EXPECT_NE(got.error().text.find("allowed"), std::string::npos);
  } else {
    ASSERT_TRUE(got) << GetParam().text;
    EXPECT_EQ(got->count(), GetParam().seconds);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Values, DurationTable,
    testing::Values(DurationCase{"0", 0}, DurationCase{"90", 90}, DurationCase{"30s", 30}, DurationCase{"10m", 600},
                    DurationCase{"1h30m", 5400}, DurationCase{"1d2h3m4s", 93784}, DurationCase{"05:30", 330},
                    DurationCase{"01:00:00", 3600}, DurationCase{"2-00:00:00", 172800}, DurationCase{"", -1},
                    DurationCase{"m", -1}, DurationCase{"10", 10}, DurationCase{"10x", -1}, DurationCase{"-5", -1},
                    DurationCase{"5m1h", -1}, DurationCase{"5m5m", -1}, DurationCase{"1.5h", -1},
                    DurationCase{"01:60", -1}, DurationCase{"1:2:3:4", -1}, DurationCase{" 5", -1},
                    DurationCase{"99999999999999999999", -1}, DurationCase{"400000d", -1}, DurationCase{"10m ", -1}));

TEST(Durations, are_written_in_the_shortest_exact_form) {
  EXPECT_EQ(format_duration(std::chrono::seconds(0)), "0s");
  EXPECT_EQ(format_duration(std::chrono::seconds(600)), "10m");
  EXPECT_EQ(format_duration(std::chrono::seconds(93784)), "1d2h3m4s");
}

TEST(Durations, survive_writing_and_reading) {
  for (int64_t s = 1; s < 10LL * 365 * 86400; s = s * 3 + 7) {
    auto got = parse_duration(format_duration(std::chrono::seconds(s)));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->count(), s);
  }
}

TEST(Integers, outside_the_range_or_not_digits_are_refused) {
  EXPECT_EQ(*parse_int("7", 0, 7), 7);
  for (const char* bad : {"", "8", "-1", "+1", " 1", "1 ", "0x1", "1e3", "9999999999999999999999"})
    EXPECT_FALSE(parse_int(bad, 0, 7)) << bad;
}

TEST(Ranges, are_numbers_and_pairs_of_them_in_order) {
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(*parse_ranges("3", 9), (Ranges{{3, 3}}));
  EXPECT_EQ(*parse_ranges("7,0-2,2-2", 9), (Ranges{{7, 7}, {0, 2}, {2, 2}}));
  EXPECT_EQ(*parse_ranges("", 9), Ranges{});
  for (const char* bad : {"10", "0-10", "2-1", "-", "1-", "-1", "1,", ",", "a", "1-2-3", "99999999999999999999"})
    EXPECT_FALSE(parse_ranges(bad, 9)) << bad;
}

TEST(Sizes, are_binary) {
  EXPECT_EQ(*parse_bytes("4KiB"), 4096U);
  EXPECT_EQ(*parse_bytes("2G"), 2ULL << 30);
  EXPECT_EQ(*parse_bytes("0"), 0U);
  for (const char* bad : {"", "G", "4KB", "1.5G", "-1", "99999999999999T"}) EXPECT_FALSE(parse_bytes(bad)) << bad;
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
}

TEST(Names, are_plain_only_without_separators_and_bounded) {
  EXPECT_TRUE(is_plain_name("pytorch"));
  EXPECT_TRUE(is_plain_name("2.1.0+cu118"));
  for (const char* bad : {"", ".hidden", "-x", "a/b", "a b", "a\nb", "\xc3\xa4", "a;b", "$(x)"})
    EXPECT_FALSE(is_plain_name(bad)) << bad;
  EXPECT_FALSE(is_plain_name(std::string(65, 'a')));
}

TEST(HostileText, is_made_printable_and_cut) {
  EXPECT_EQ(printable("a\n\x1b"), "a\\x0a\\x1b");
  EXPECT_LE(printable(std::string(10000, 'x')).size(), 90U);
}

TEST(Splitting, keeps_empty_fields_and_gives_nothing_for_nothing) {
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(split("a,,b", ',').size(), 3U);
  EXPECT_EQ(trim(" \ta b\n"), "a b");
}

TEST(ShellWords, WordsAreQuotedWhereAShellNeedsIt) {
  EXPECT_EQ(shell_words({"python3", "-c", "print('a b')", ""}), "python3 -c 'print('\\''a b'\\'')' ''");
  EXPECT_EQ(shell_words({"a", "--x=y/z", "$HOME"}), "a --x=y/z '$HOME'");
  EXPECT_EQ(shell_word("a\nb"), "'a\nb'");
  EXPECT_EQ(shell_words({}), "");
}

}  // namespace
}  // namespace dl
