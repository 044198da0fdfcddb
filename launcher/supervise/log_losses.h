// SPDX-License-Identifier: Apache-2.0
// Keeps count of output that is missing in learners' logs, or in dlrun's own output, because it could not be written (a
// full disk), and words what dlrun says when the loss begins and at the end of the run. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/protocol/control_protocol.h"

namespace dl::supervise {

class LogLosses {
 public:
  // A learner reports how much is missing so far. Returns the sentence to say now; empty if this log was known to be
  // incomplete.
  std::string add(int attempt, int rank, const protocol::LogLost& lost);
  // dlrun's own output cannot be written: "standard output: No space left on device", or no text. Returns the sentence
  // to say now; empty if that was known.
  std::string add_output(const std::string& error);
  // For `dlctl status`; empty if the log of this learner is complete.
  std::string note(int attempt, int rank) const;
  // About all logs of the run and dlrun's own output; empty if they are complete. events: how many could not be written
  // to events.jsonl.
  std::string summary(int events) const;

 private:
  std::map<std::pair<int, int>, protocol::LogLost> logs_;  // by attempt and rank
  std::vector<std::string> outputs_;                       // why dlrun's own could not be written
};

}  // namespace dl::supervise
