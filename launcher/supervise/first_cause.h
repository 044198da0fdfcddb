// SPDX-License-Identifier: Apache-2.0
// Finds out which of several failures came first: one learner dies, and milliseconds later all others fail because of
// it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dl::supervise {

struct Failure {
  // kNoAgent: its agent has not connected in time. kLauncher: not a learner's failure: dlrun itself died. kData: its
  // node could not fetch the job's data.
  enum class Kind { kExit, kSignal, kAgentLost, kNotStarted, kHang, kNoAgent, kLauncher, kData };
  int rank = 0;
  static constexpr int kSomeServer = -2;
  int server = -1;  // its place in the elastic pool, if it is a server of one; kSomeServer: not known which
  std::string host;
  Kind kind = Kind::kExit;
  // kExit: its code, not 0; kNotStarted: 126, 127, or 71 if agents did not come; kData: that of dl-data
  int exit = 0;
  int signal = 0;      // kSignal
  int64_t at_ms = 0;   // when dlrun heard of it, any monotonic clock
  bool asked = false;  // dlrun had asked for the end: not a cause
  std::string text;    // kNotStarted, kAgentLost, kHang, kNoAgent, kLauncher, kData: why
  // What the learner left (control_protocol.h, Exited):
  bool memory = false;    // killed because memory ran out
  std::string exception;  // one line, or empty
  std::vector<std::string> last_lines;
  int64_t step = -1;  // train step it had announced; -1 = none
};

// The cause among failures: the earliest not asked for. Within kSameMomentMs of it (messages of different nodes may
// overtake one another) a failure that a broken connection to a peer does not explain (SIGKILL, SIGSEGV, SIGBUS,
// SIGILL, SIGFPE, kAgentLost, kNotStarted, kHang, kNoAgent, kData) is preferred over an exit code or an abort. None if
// all were asked for.
constexpr int64_t kSameMomentMs = 300;
std::optional<Failure> first_cause(const std::vector<Failure>& failures);

// The exit status of dlrun after this failure.
int exit_status(const Failure& failure);
// "learner 2 on n3 was killed by signal 9 (SIGKILL): out of memory", "learner 0 exited with code 1: KeyError: 'lr'".
std::string describe(const Failure& failure);

}  // namespace dl::supervise
