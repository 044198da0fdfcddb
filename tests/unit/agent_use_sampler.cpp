// SPDX-License-Identifier: Apache-2.0
// What a learner uses, measured on real processes.
#include "launcher/agent/use_sampler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

namespace dl::agent {
namespace {

constexpr int64_t kBurnedMs = 400;

// Exactly one byte, so that it is known what the other side has done.
void tell(int fd) {
  if (::write(fd, "x", 1) != 1) ::_exit(1);
}
bool told(int fd) {
  char byte = 0;
  return ::read(fd, &byte, 1) == 1;
}

int64_t own_cpu_ms() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

// Says so when it has computed, and ends when it is asked to.
[[noreturn]] void worker(int from, int to) {
  while (own_cpu_ms() < kBurnedMs) continue;
  tell(to);
  ::_exit(told(from) ? 0 : 1);
}

// Waits for its worker only when it is asked to, and says so when the worker has ended and when it has waited for it.
[[noreturn]] void learner(int from, int to, int worker_from, int worker_to) {
  const pid_t pid = ::fork();
  if (pid == 0) worker(worker_from, worker_to);
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0) ::_exit(1);
  tell(to);
  if (!told(from) || ::waitpid(pid, nullptr, 0) != pid) ::_exit(1);
  tell(to);
  ::_exit(told(from) ? 0 : 1);
}

TEST(UseSampler, AProcessThatEndedAndIsWaitedForLaterCountsOnce) {
  int to_learner[2], to_worker[2], from_learner[2], from_worker[2];
  for (int* ends : {to_learner, to_worker, from_learner, from_worker}) ASSERT_EQ(::pipe(ends), 0);
  const pid_t pid = ::fork();
  if (pid == 0) learner(to_learner[0], from_learner[1], to_worker[0], from_worker[1]);
  ASSERT_GT(pid, 0);
  UseSampler sampler;
  sampler.start(1000, 0, 0);
  int64_t now_ms = 0, sum = 0;
  const auto look = [&] {
    const auto use = sampler.look({}, now_ms += 400'000);
    ASSERT_TRUE(use);
    sum += use->cpu_ms;
  };
  ASSERT_TRUE(told(from_worker[0]));
  look();
  EXPECT_GE(sum, kBurnedMs - 50) << "while it runs";
  tell(to_worker[1]);
  ASSERT_TRUE(told(from_learner[0]));
  look();
  tell(to_learner[1]);
  ASSERT_TRUE(told(from_learner[0]));
  look();
  EXPECT_LT(sum, 2 * kBurnedMs - 50) << "it was counted once more when its parent waited for it";
  tell(to_learner[1]);
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  for (int* ends : {to_learner, to_worker, from_learner, from_worker})
    for (int i : {0, 1}) ::close(ends[i]);
}

}  // namespace
}  // namespace dl::agent
