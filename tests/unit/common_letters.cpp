// SPDX-License-Identifier: Apache-2.0
#include "common/base/letters.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "common/base/parse.h"

namespace dl {
namespace {

TEST(LetterTest, WellFormedCharactersAreTakenWhole) {
  EXPECT_EQ(letter_at("\u00e8x"), 2U);
  EXPECT_EQ(letter_at("\u6a21\u578b"), 3U);
  EXPECT_EQ(letter_at("\U0001f600"), 4U);
  EXPECT_EQ(letter_at("x"), 0U) << "ASCII is not asked about";
  EXPECT_EQ(letter_at(""), 0U);
}

TEST(LetterTest, WhatCouldHarmATerminalIsNotTaken) {
  for (const char* bad : {
           "\xc2\x9b"
           "31m",       // CSI as a C1 control
           "\xc2\x85",  // next line
           "\x9b"
           "31m",               // the same as one byte
           "\xe2\x80\xae",      // writes from right to left
           "\xe2\x81\xa6",      // isolates a direction
           "\xe2\x80\x8b",      // no width
           "\xe2\x80\xa8",      // line separator
           "\xef\xbb\xbf",      // byte order mark
           "\xed\xa0\x80",      // a surrogate
           "\xc0\xaf",          // "/" in two bytes
           "\xe0\x80\xaf",      // in three
           "\xf0\x80\x80\xaf",  // in four
           "\xf4\x90\x80\x80",  // beyond Unicode
           "\xf3\xa0\x81\x81",  // a tag
           "\xef\xbf\xbf",      // no character
           "\xc3",              // cut off
           "\xc3(",             // broken off
           "\xe6\xa8",
       })
    EXPECT_EQ(letter_at(bad), 0U) << printable(bad);
}

TEST(LetterTest, APrintableTextShowsThemWhereThatWasAskedFor) {
  EXPECT_EQ(printable("mod\u00e8le"), "mod\\xc3\\xa8le");
  show_letters(true);
  EXPECT_EQ(printable("mod\u00e8le \x1b[31m \xc2\x9b"), "mod\u00e8le \\x1b[31m \\xc2\\x9b");
  EXPECT_EQ(printable("\u6a21\u578b\u6a21\u578b", 3), "\u6a21\u578b\u6a21\u2026") << "each counts as one";
  show_letters(false);
  EXPECT_EQ(printable("mod\u00e8le"), "mod\\xc3\\xa8le");
}

TEST(LetterTest, ATextThatWasCutBeforeIsShownAsItIs) {
  EXPECT_EQ(printable(printable("123456", 3)), "123\u2026");
}

TEST(LocaleTest, TheFirstVariableThatIsSetDecides) {
  struct Restore {
    ~Restore() {
      for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) ::unsetenv(name);
    }
  } restore;
  ::unsetenv("LC_CTYPE");
  ::setenv("LC_ALL", "", 1);
  ::setenv("LANG", "de_DE.UTF-8", 1);
  EXPECT_TRUE(locale_is_utf8());
  ::setenv("LC_CTYPE", "C", 1);
  EXPECT_FALSE(locale_is_utf8());
  ::setenv("LC_ALL", "C.utf8", 1);
  EXPECT_TRUE(locale_is_utf8());
}

}  // namespace
}  // namespace dl
