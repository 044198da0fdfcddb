// SPDX-License-Identifier: Apache-2.0
#include "launcher/guard/death.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "common/process/child_process.h"

namespace dl::guard {
namespace {

// Signals of a crash, of the kernel when memory is short, or of kill -9.
constexpr int kDeadly[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};

}  // namespace

bool is_deadly(int signal) {
  return std::find(std::begin(kDeadly), std::end(kDeadly), signal) != std::end(kDeadly);
}

bool Budget::take(int64_t now_ms) {
  taken_.erase(std::remove_if(taken_.begin(), taken_.end(), [&](int64_t at) { return now_ms - at >= kStartsWithinMs; }),
               taken_.end());
  if (taken_.size() >= static_cast<size_t>(kMostStarts)) return false;
  taken_.push_back(now_ms);
  return true;
}

Verdict judge(const ChildEnd& end) {
  Verdict verdict;
  verdict.exit_status = shell_exit_code(end.wait_status);
  if (WIFSIGNALED(end.wait_status)) {
    const int signal = WTERMSIG(end.wait_status);
    verdict.died = !end.stop_asked && is_deadly(signal);
    if (!verdict.died) return verdict;
    const char* name = sigabbrev_np(signal);
    verdict.text = fmt::format("dlrun was killed by signal {} (SIG{})", signal, name != nullptr ? name : "?");
  } else if (end.fault && !end.stop_asked) {
    verdict.died = true;
    verdict.text = "dlrun ended by a fault of its own";
  }
  return verdict;
}

}  // namespace dl::guard
