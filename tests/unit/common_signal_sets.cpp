// SPDX-License-Identifier: Apache-2.0
#include "common/process/signal_sets.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace dl {
namespace {

TEST(SignalSetsTest, TellWhatThisProcessDoesWithASignal) {
  const auto before = ::signal(SIGUSR1, [](int /*signal*/) {});
  const auto ignored = ::signal(SIGUSR2, SIG_IGN);
  const auto sets = signal_sets_of(::getpid());
  ::signal(SIGUSR1, before);
  ::signal(SIGUSR2, ignored);
  ASSERT_TRUE(sets);
  EXPECT_TRUE(SignalSets::has(sets->caught, SIGUSR1));
  EXPECT_FALSE(SignalSets::has(sets->ignored, SIGUSR1));
  EXPECT_TRUE(SignalSets::has(sets->ignored, SIGUSR2));
  EXPECT_FALSE(SignalSets::has(sets->caught | sets->ignored, SIGPROF));
}

TEST(SignalSetsTest, NothingIsKnownOfAProcessThatHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(signal_sets_of(child));
}

}  // namespace
}  // namespace dl
