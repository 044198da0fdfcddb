// SPDX-License-Identifier: Apache-2.0
// What dlrun says, and that it stops doing again and again what has come to its end.
#include "launcher/supervise/voice.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "launcher/supervise/repeat.h"

namespace dl::supervise {
namespace {

TEST(VoiceTest, AQuietRunSaysOnlyWarnings) {
  for (const bool quiet : {false, true}) {
    std::string said;
    const Voice voice(0, quiet, [&](const std::string& text) { said += text; });
    voice.say("all is well");
    voice.warn("a disk is full");
    EXPECT_EQ(said, quiet ? "dlrun: a disk is full\n" : "dlrun: all is well\ndlrun: a disk is full\n");
  }
}

TEST(VoiceTest, ARunBesideOthersSaysItsNumber) {
  EXPECT_EQ(Voice(0, false).name(), "dlrun");
  std::string said;
  const Voice voice(2, false, [&](const std::string& text) { said += text; });
  EXPECT_EQ(voice.name(), "dlrun 2");
  voice.say("text");
  EXPECT_EQ(said, "dlrun 2: text\n");
}

TEST(VoiceTest, WithoutAnotherPlaceItIsStandardError) {
  testing::internal::CaptureStderr();
  Voice(0, false).say("text");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "dlrun: text\n");
}

TEST(VoiceTest, ALineThatStandardErrorDoesNotTakeIsKnown) {
  const int before = ::dup(STDERR_FILENO), full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "no /dev/full";
  const Voice voice(0, false);
  EXPECT_EQ(voice.error(), "");
  ::dup2(full, STDERR_FILENO);
  voice.say("text");
  ::dup2(before, STDERR_FILENO);
  std::clearerr(stderr);
  ::close(before);
  ::close(full);
  EXPECT_EQ(voice.error(), "standard error: No space left on device");
}

TEST(RepeatTest, AStepIsRepeatedUntilItHasNothingMoreToDo) {
  uv_loop_t loop{};
  ASSERT_EQ(uv_loop_init(&loop), 0);
  int first = 0, second = 0;
  repeat(&loop, 1, [&] { return ++first == 3; });
  repeat(&loop, 1, [&] { return ++second == 1; });
  EXPECT_EQ(first, 0) << "not before the loop turns";
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(first, 3);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(uv_loop_close(&loop), 0) << "nothing of them is left";
}

}  // namespace
}  // namespace dl::supervise
