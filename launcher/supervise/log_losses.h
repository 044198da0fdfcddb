// SPDX-License-Identifier: Apache-2.0
// Keeps count of output that is missing in learners' logs because the logs could not be written (a full disk), and
// words what dlrun says when the loss begins and at the end of the run. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "launcher/protocol/control_protocol.h"

namespace dl::supervise {

class LogLosses {
 public:
  // A learner reports how much is missing so far. Returns the sentence to say now; empty if this log was known to be
  // incomplete.
  std::string add(int attempt, int rank, const protocol::LogLost& lost);
  // For `dlctl status`; empty if the log of this learner is complete.
  std::string note(int attempt, int rank) const;
  // About all logs of the run; empty if they are complete. events: how many could not be written to events.jsonl.
  std::string summary(int events) const;

 private:
  std::map<std::pair<int, int>, protocol::LogLost> logs_;  // by attempt and rank
};

}  // namespace dl::supervise
