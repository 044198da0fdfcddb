// SPDX-License-Identifier: Apache-2.0
// The time index of the logs (launcher/logs/log_index.h): agents report how long their logs are, and this writes it
// down once a second, on another thread, since the file system may be slow. An index that cannot be written is no loss:
// dlctl then estimates the times. Used from the loop's thread alone.
#pragma once

#include <uv.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/logs/index_writer.h"
#include "launcher/supervise/blocking_calls.h"

namespace dl::supervise {

class LogTimes {
 public:
  explicit LogTimes(uv_loop_t* loop) : calls_(loop) {}

  // `folder`: logs/attempt-A of the new attempt. What was reported of the former one is written first.
  void begin_attempt(const std::string& folder, int64_t unix_ms);
  void grew(int rank, uint64_t bytes, int64_t unix_ms) { marks_.push_back({unix_ms, rank, bytes}); }
  // Begins to write what was reported. To be called each second, and at the end of the run.
  void flush();
  bool idle() const { return marks_.empty() && calls_.idle(); }

 private:
  BlockingCalls calls_;
  std::vector<logs::Mark> marks_;
  std::shared_ptr<logs::IndexWriter> writer_;  // used by the calls alone, one after another
};

}  // namespace dl::supervise
