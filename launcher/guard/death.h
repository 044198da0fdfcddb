// SPDX-License-Identifier: Apache-2.0
// What the end of a dlrun means to its guard: handed on as it is, or a failure like any other, after which another
// dlrun takes its place. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dl::guard {

// So many new starts within so long. A dlrun that dies again and again has a cause that a new one does not remove.
constexpr int kMostStarts = 3;
constexpr int64_t kStartsWithinMs = 3600 * 1000;

// Whether a process that ends by this signal has crashed, or was killed by force.
bool is_deadly(int signal);

class Budget {
 public:
  // Whether there is one left at this time (milliseconds of any clock that does not go back); it is then taken.
  bool take(int64_t now_ms);

 private:
  std::vector<int64_t> taken_;
};

struct ChildEnd {
  int wait_status = 0;
  bool fault = false;       // it told that it ends because of a fault of its own (an exception)
  bool stop_asked = false;  // a signal that asks for an end had been handed on to it
};

struct Verdict {
  bool died = false;    // nobody asked for that
  int exit_status = 0;  // as a shell shows it
  std::string text;     // died: "dlrun was killed by signal 9 (SIGKILL)"
};

//   exit code                          handed on, but for a fault that it told of
//   SIGKILL, SIGSEGV, SIGABRT, ...     died, unless a stop was asked for before: whoever waits for it has lost patience
//   SIGTERM, SIGINT and other signals  somebody's wish
Verdict judge(const ChildEnd& end);

}  // namespace dl::guard
