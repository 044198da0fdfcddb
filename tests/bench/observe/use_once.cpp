// SPDX-License-Identifier: Apache-2.0
// What ./run measures: the CPU time of one look at what a learner uses, as its agent takes it each 10 s.
//
//     use_once PROCESSES LOOKS    a learner of so many processes; prints microseconds for each look
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "launcher/agent/use_sampler.h"

namespace {

double cpu_us() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: use_once PROCESSES LOOKS\n", stderr);
    return 2;
  }
  const int processes = std::atoi(argv[1]), looks = std::atoi(argv[2]);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (;;) ::pause();
    }
    if (pid > 0) children.push_back(pid);
  }
  constexpr int64_t kEachMs = 1'000'000;  // more than the longest wait: each look is due
  dl::agent::UseSampler sampler;
  int64_t now_ms = kEachMs;
  sampler.start(10'000, 1, now_ms);
  int seen = 0;
  const double began = cpu_us();
  for (int i = 0; i < looks; ++i) {
    const auto use = sampler.look({}, now_ms += kEachMs);
    if (use && use->cpu_ms >= 0) ++seen;
  }
  const double took = cpu_us() - began;
  for (const pid_t pid : children) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  if (seen != looks || looks <= 0) {
    std::fputs("use_once: a look saw nothing\n", stderr);
    return 1;
  }
  fmt::print("{:.1f}\n", took / looks);
  return 0;
}
