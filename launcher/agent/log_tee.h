// SPDX-License-Identifier: Apache-2.0
// Copies what a learner writes: every byte to its log file, and to the agent's standard output either the same bytes
// (one learner) or whole lines with "[R] " in front (several). A carriage return ends a line too, so that progress bars
// move. Writes to standard output never block: what it does not take is kept here; when that is much, wants_input() is
// false and the learner's pipe fills, as it would without an agent. If the log cannot be written (the disk is full),
// the learner goes on, and the log later gets a line at the place where output is missing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/agent/log_limit.h"

namespace dl::agent {

class LogTee {
 public:
  LogTee() = default;
  // log_path: empty for no log. out_fd is borrowed; -1: the log alone. log_limit: bytes of the log that are kept, 0:
  // all (log_limit.h). Fails if the log cannot be opened.
  Status open(const std::string& log_path, int out_fd, std::string prefix, uint64_t log_limit = 0);

  void feed(std::string_view data);
  bool wants_input() const { return pending_.size() < kHighWater; }
  bool has_pending() const { return !pending_.empty(); }
  // Writes to standard output as much as goes without blocking. To be called when it is writable.
  void write_pending();
  // What could not be written so far.
  struct Lost {
    int64_t bytes = 0;   // of the log
    std::string error;   // empty: nothing of the log was lost
    std::string output;  // why something could not be written to standard output
  };
  const Lost& lost() const { return lost_; }
  uint64_t log_bytes() const { return limit_.size(); }  // how long the log is
  // To be called when the learner has ended: completes an unfinished line and writes the rest, waiting at most `limit`.
  void finish(std::chrono::milliseconds limit);

 private:
  static constexpr size_t kHighWater = 256 << 10;
  static constexpr size_t kLongestLine = 64 << 10;
  void to_log(std::string_view data);
  bool mark_gap();
  void end_line();

  UniqueFd log_;
  LogLimit limit_;
  std::string log_path_;
  Lost lost_;
  int64_t gap_ = 0;  // bytes that are missing at the log's end
  int out_fd_ = -1;
  std::string prefix_;
  std::string line_;     // not ended yet
  std::string pending_;  // for standard output
};

}  // namespace dl::agent
