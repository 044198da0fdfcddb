// SPDX-License-Identifier: Apache-2.0
// The logs of one attempt as `dlctl logs` prints them: merged in order of time, filtered, and made safe for a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/ctl/log_choice.h"
#include "launcher/ctl/log_words.h"
#include "launcher/logs/log_index.h"
#include "launcher/logs/merge.h"
#include "launcher/record/job_dir.h"

namespace dl::ctl {

struct LogChoice {
  Ranks ranks;
  std::optional<int64_t> since_ms, until_ms;
  int64_t last_lines = -1;  // of each learner; -1: all
  bool fold = true;         // lines that several learners wrote alike are shown once
  bool several = false;     // the job has several learners, whether or not all have a log yet
  std::optional<Expression> grep;
};

// Prints lines to standard output, with their ranks in front unless only one learner was asked for. On a terminal the
// first line that reports an error is highlighted.
class LogPrinter {
 public:
  LogPrinter(bool terminal, bool colours) : terminal_(terminal), colours_(colours) {}
  void print(const std::vector<int>& ranks, const std::string& line, bool prefix);

 private:
  bool terminal_, colours_, error_shown_ = false;
};

// "[0-1023] "; of many ranks that lie apart the first ones and their number: "[0,2,4,6,… (512)] ". Pure.
std::string ranks_prefix(const std::vector<int>& ranks);

class AttemptLogs {
 public:
  // begin_ms: when the attempt began; 0: unknown. choice and printer must outlive this.
  AttemptLogs(record::JobDir dir, int number, int64_t begin_ms, LogChoice* choice, LogPrinter* printer);
  AttemptLogs(const AttemptLogs&) = delete;
  AttemptLogs& operator=(const AttemptLogs&) = delete;

  int number() const { return number_; }
  bool empty() const { return merger_->empty(); }
  // Opens the logs that exist, each at the place where the choice begins.
  Status open();
  // Opens logs that have appeared since open(), from their beginning.
  void open_new();
  // Prints what is new, in whole lines. True if there was anything.
  Result<bool> print_new();
  // Prints the last lines that have no newline.
  void finish() { merger_->finish(); }
  // The times of some logs are not recorded but estimated (logs/read_index.h).
  bool estimated() const { return index_.estimated(); }

 private:
  Result<logs::Part> part_of(int rank);
  void show(const std::vector<int>& ranks, const std::string& line);

  record::JobDir dir_;
  int number_;
  int64_t begin_ms_;
  LogChoice* choice_;
  LogPrinter* printer_;
  logs::LogIndex index_;
  std::unique_ptr<logs::Merger> merger_;
  size_t logs_ = 0;
};

}  // namespace dl::ctl
