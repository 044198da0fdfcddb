// SPDX-License-Identifier: Apache-2.0
// Decides what the end of a dlrun means to its guard: its exit status is handed on, or it has died, and another dlrun
// takes its place. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dl::guard {

// The guard starts dlrun anew at most kMostStarts times within this time: if dlrun dies again and again, a new start
// does not remove the cause.
constexpr int kMostStarts = 3;
constexpr int64_t kStartsWithinMs = 3600 * 1000;

// True if a process that this signal ended has crashed or was killed by force (SIGKILL, SIGSEGV, SIGABRT, ...).
bool is_deadly(int signal);

class Budget {
 public:
  // Takes one start from the budget. False if none is left. now_ms: of any clock that does not go back.
  bool take(int64_t now_ms);

 private:
  std::vector<int64_t> taken_;
};

struct ChildEnd {
  int wait_status = 0;
  bool fault = false;       // it has reported that it ends because of an exception
  bool stop_asked = false;  // a signal that asks a process to end was handed on to it
};

struct Verdict {
  bool died = false;    // it crashed or was killed, and nobody had asked it to end
  int exit_status = 0;  // as a shell shows it
  std::string text;     // died: "dlrun was killed by signal 9 (SIGKILL)"
};

//   exit code                          handed on; died if it ended by an exception and no stop was asked for
//   SIGKILL, SIGSEGV, SIGABRT, ...     died, unless it was asked to end before: then somebody did not want to wait
//   SIGTERM, SIGINT and other signals  handed on: somebody wanted it to end
Verdict judge(const ChildEnd& end);

}  // namespace dl::guard
