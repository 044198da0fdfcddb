// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/log_times.h"

#include <utility>

namespace dl::supervise {

void LogTimes::begin_attempt(const std::string& folder, int64_t unix_ms) {
  flush();
  writer_ = std::make_shared<logs::IndexWriter>(folder + "/" + logs::kIndexName, unix_ms);
}

void LogTimes::flush() {
  std::vector<logs::Mark> marks = std::exchange(marks_, {});
  if (marks.empty() || !writer_) return;
  calls_.post(
      [writer = writer_, marks = std::move(marks)] { ignore(writer->append(marks), "times are then estimated"); },
      [] {});
}

}  // namespace dl::supervise
