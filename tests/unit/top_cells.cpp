// SPDX-License-Identifier: Apache-2.0
// Texts on a screen: their widths, cuts, and what is left of hostile ones.
#include "launcher/top/cells.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "common/base/letters.h"

namespace dl::top {
namespace {

TEST(TopCellsTest, TextsAreAsWideAsOnATerminal) {
  EXPECT_EQ(columns_of(""), 0U);
  EXPECT_EQ(columns_of("abc"), 3U);
  EXPECT_EQ(columns_of("größe"), 5U);
  EXPECT_EQ(columns_of("訓練"), 4U);
  EXPECT_EQ(columns_of("e\u0301"), 1U);
  EXPECT_EQ(columns_of("\xff\xfe"), 2U);
}

TEST(TopCellsTest, ACutTextIsNeverWiderThanItsPlace) {
  EXPECT_EQ(cut("training", 8, "…"), "training");
  EXPECT_EQ(cut("training", 5, "…"), "trai…");
  EXPECT_EQ(cut("training", 5, "~"), "trai~");
  EXPECT_EQ(cut("training", 1, "…"), "…");
  EXPECT_EQ(cut("training", 0, "…"), "");
  EXPECT_EQ(cut("訓練中", 4, "…"), "訓…");
  EXPECT_EQ(fitted("ab", 4, "…"), "ab  ");
  EXPECT_EQ(fitted("ab", 4, "…", true), "  ab");
  std::mt19937 random(7);
  const std::string pieces[] = {"a", "ü", "訓", "\xff", "e\u0301", " ", "…"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned i = random() % 20; i > 0; --i) text += pieces[random() % 7];
    const size_t room = random() % 12;
    EXPECT_LE(columns_of(cut(text, room, "…")), room) << text;
    EXPECT_EQ(columns_of(fitted(text, room, "…")), room) << text;
  }
}

TEST(TopCellsTest, NothingOfAHostileLineReachesTheTerminal) {
  EXPECT_EQ(harmless("plain\ttext\n", 100), "plain text");
  EXPECT_EQ(harmless("10%\r20%\r30%\r\n", 100), "30%");
  EXPECT_EQ(harmless("\033[31mred\033[0m", 100), "red");
  EXPECT_EQ(harmless("\033]0;title\a", 100), "\\x1b]0;title\\x07");
  EXPECT_EQ(harmless("\033[2J", 100), "\\x1b[2J");
  EXPECT_EQ(harmless("\033[", 100), "\\x1b[");
  EXPECT_EQ(harmless(std::string("a\0b", 3), 100), "a\\x00b");
  show_letters(true);
  EXPECT_EQ(harmless("größe\u202e\u009b", 100), "größe\\xe2\\x80\\xae\\xc2\\x9b");
  show_letters(false);
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (unsigned i = random() % 40; i > 0; --i) text += static_cast<char>("\033[]m;\a\r\x9b\x00xé0"[random() % 14]);
    for (const char c : harmless(text, 1000)) EXPECT_TRUE(c >= 0x20 && c != 0x7f) << text;
  }
}

TEST(TopCellsTest, TimesAndNumbersAreShort) {
  EXPECT_EQ(time_text(std::nullopt), "-");
  EXPECT_EQ(time_text(-5), "0s");
  EXPECT_EQ(time_text(59'999), "59s");
  EXPECT_EQ(time_text(12 * 60'000), "12m");
  EXPECT_EQ(time_text(3 * 3'600'000 + 5 * 60'000), "3h05m");
  EXPECT_EQ(time_text(4 * 86'400'000LL + 2 * 3'600'000), "4d02h");
  EXPECT_EQ(number_text(std::nullopt), "-");
  EXPECT_EQ(cpus_text(std::nullopt), "-");
  EXPECT_EQ(cpus_text(0.000995), "0.00");
  EXPECT_EQ(cpus_text(3.254), "3.25");
  EXPECT_EQ(cpus_text(1234.5), number_text(1234.5));
  EXPECT_EQ(number_text(0.0), "0");
  EXPECT_EQ(number_text(0.0331), "0.0331");
  EXPECT_EQ(number_text(2.3456), "2.35");
  EXPECT_EQ(number_text(1234.5), "1234");
  EXPECT_EQ(number_text(5e-7), "5.0e-07");
  EXPECT_EQ(number_text(std::nan("")), "nan");
  EXPECT_EQ(number_text(HUGE_VAL), "inf");
}

}  // namespace
}  // namespace dl::top
