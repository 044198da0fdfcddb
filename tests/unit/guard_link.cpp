// SPDX-License-Identifier: Apache-2.0
// What a dlrun that died has left with its guard for the one in its place.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <vector>

#include "launcher/guard/guard.h"

namespace dl::guard {
namespace {

// The exit status of a guard in a process of its own; its children run these, one after another.
using Dlrun = int (*)(const Predecessor&, Link*);
int guarded(const std::vector<Dlrun>& dlruns) {
  void* memory = ::mmap(nullptr, sizeof(size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -1;
  auto* number = new (memory) size_t(0);  // all children see it
  const pid_t pid = ::fork();
  if (pid == 0)
    ::_exit(run_guarded([&](const Predecessor& before, Link* link) -> int {
      const Dlrun dlrun = dlruns[(*number)++];
      ::_exit(dlrun(before, link));
    }));
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::munmap(memory, sizeof(size_t));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int die() {
  ::raise(SIGKILL);
  return 99;
}

TEST(GuardLink, ASignalThatTheDeadOneHadNotAnsweredIsHandedOverWithItsTime) {
  const std::vector<Dlrun> dlruns = {
      [](const Predecessor& before, Link* link) {
        if (!before.death.empty() || before.began || before.notice != 0) return 10;
        link->unanswered(SIGUSR2, 1'789'000'000'000);
        link->unanswered(SIGTERM, 1'789'000'000'500);
        link->began();
        return die();
      },
      [](const Predecessor& before, Link* link) {
        if (before.death.empty() || !before.began) return 11;
        if (before.notice != SIGTERM || before.notice_ms != 1'789'000'000'500) return 12;
        link->unanswered(before.notice, before.notice_ms);
        link->unanswered(0, 0);  // Slurm has answered
        return die();
      },
      [](const Predecessor& before, Link* /*link*/) { return before.began && before.notice == 0 ? 0 : 13; }};
  EXPECT_EQ(guarded(dlruns), 0);
}

volatile std::sig_atomic_t heard = 0;

// Slurm sends it to all processes of a job, also to a dlrun that has just begun.
TEST(GuardLink, TheOneInItsPlaceIsNotEndedBySlurmsSignalsBeforeItHandlesThem) {
  ::setenv("SLURM_JOB_ID", "7", 1);
  const auto dies = [](const Predecessor& /*before*/, Link* /*link*/) { return die(); };
  const auto hears = [](const Predecessor& before, Link* link) {
    if (before.death.empty()) return 10;
    for (const int signal : {SIGTERM, SIGUSR2}) ::raise(signal);
    for (const int signal : {SIGTERM, SIGUSR2}) std::signal(signal, [](int number) { heard = heard + number; });
    if (heard != 0) return 11;
    link->handles_signals();
    return heard == SIGTERM + SIGUSR2 ? 0 : 12;
  };
  EXPECT_EQ(guarded({dies, hears}), 0);
  ::unsetenv("SLURM_JOB_ID");
}

TEST(GuardLink, ADlrunThatTakesNobodysPlaceAndOneWithoutSlurmAreEndedAtOnce) {
  const auto ends = [](const Predecessor& /*before*/, Link* /*link*/) {
    ::kill(::getppid(), SIGTERM);  // which hands it on
    ::pause();
    return 13;
  };
  ::setenv("SLURM_JOB_ID", "7", 1);
  EXPECT_EQ(guarded({ends}), 128 + SIGTERM);
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(guarded({[](const Predecessor& /*before*/, Link* /*link*/) { return die(); }, ends}), 128 + SIGTERM);
}

TEST(GuardLink, WhatNeverBeganLeavesNothing) {
  EXPECT_EQ(guarded({[](const Predecessor& /*before*/, Link* /*link*/) { return die(); },
                     [](const Predecessor& before, Link* /*link*/) { return before.began ? 11 : 0; }}),
            0);
}

}  // namespace
}  // namespace dl::guard
