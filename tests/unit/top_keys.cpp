// SPDX-License-Identifier: Apache-2.0
// Keys, whole and in parts, and bytes that are none.
#include "launcher/top/keys.h"

#include <gtest/gtest.h>

#include <random>

namespace dl::top {
namespace {

std::string names(const std::vector<Press>& presses) {
  const char* const kNames[] = {"",      "enter",  "escape",   "up",   "down", "left",
                                "right", "pageup", "pagedown", "home", "end"};
  std::string text;
  for (const Press& one : presses)
    text += (text.empty() ? "" : " ") +
            (one.key == Key::kLetter ? std::string(1, one.letter) : std::string(kNames[static_cast<int>(one.key)]));
  return text;
}

TEST(TopKeysTest, KeysOfTheUsualTerminalsAreKnown) {
  KeyReader keys;
  EXPECT_EQ(names(keys.feed("qS?\r\n")), "q S ? enter enter");
  EXPECT_EQ(names(keys.feed("\033[A\033[B\033OC\033OD")), "up down right left");
  EXPECT_EQ(names(keys.feed("\033[5~\033[6~\033[H\033[F\033[1~\033[4~")), "pageup pagedown home end home end");
  EXPECT_FALSE(keys.unsettled());
}

TEST(TopKeysTest, ASequenceMayComeInParts) {
  KeyReader keys;
  EXPECT_EQ(names(keys.feed("\033")), "");
  EXPECT_TRUE(keys.unsettled());
  EXPECT_EQ(names(keys.feed("[")), "");
  EXPECT_EQ(names(keys.feed("5")), "");
  EXPECT_EQ(names(keys.feed("~q")), "pageup q");
}

TEST(TopKeysTest, EscapeAloneIsAKeyOnceNothingFollows) {
  KeyReader keys;
  EXPECT_EQ(names(keys.feed("\033")), "");
  EXPECT_EQ(names(keys.settle()), "escape");
  EXPECT_EQ(names(keys.feed("\033[")), "");
  EXPECT_EQ(names(keys.settle()), "");
  EXPECT_EQ(names(keys.feed("\033q")), "escape q");
}

TEST(TopKeysTest, WhatIsNoKeyMeansNothing) {
  KeyReader keys;
  EXPECT_EQ(names(keys.feed("\x01\x07\xc3\xbc\033[200~\033[<0;1;1M\033[99;99z")), "");
  EXPECT_EQ(names(keys.feed("q")), "q");
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (unsigned i = random() % 12; i > 0; --i) bytes += static_cast<char>(random() % 3 == 0 ? 0x1b : random() % 256);
    keys.feed(bytes);
  }
  keys.feed("m~");
  keys.settle();
  EXPECT_EQ(names(keys.feed("q")), "q");
}

}  // namespace
}  // namespace dl::top
