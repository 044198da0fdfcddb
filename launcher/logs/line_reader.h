// SPDX-License-Identifier: Apache-2.0
// Reads one log line by line, from any place, also while it grows. With `keep_open` false the file is opened for each
// read and closed again, so that ten thousand logs do not need ten thousand descriptors.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "launcher/logs/log_file.h"

namespace dl::logs {

constexpr size_t kMostLine = 1 << 20;  // a longer line is given in parts of this size

class LineReader {
 public:
  // Begins with the first line that begins at or after the byte `begin`.
  LineReader(std::string root, std::string relative, uint64_t begin, bool keep_open);

  // Appends to *lines the lines that begin before `end`, until about `most` bytes are read. True if no line is left for
  // now: all of them were given, or the log ends here. Later calls give what is appended to the log later.
  Result<bool> read(uint64_t end, size_t most, std::deque<std::string>* lines);
  // Takes out the last line if it has no newline yet; else empty.
  std::string take_rest();
  uint64_t offset() const { return at_; }  // of the first byte behind the lines that were given
  bool at_end() const { return at_end_; }  // the last read() reached the end of the log

 private:
  Result<std::shared_ptr<LogFile>> file();
  Status find_line(LogFile* file);
  Status end_of(const LogFile& file);
  void give_lines(uint64_t end, std::deque<std::string>* lines);

  std::string root_, relative_;
  uint64_t at_ = 0;       // begin of rest_
  uint64_t read_at_ = 0;  // where to read on
  std::string rest_;
  bool keep_open_ = false, found_ = false, at_end_ = false;
  std::shared_ptr<LogFile> open_;
};

// Returns the offset of the last `count` lines before `end`, or before the end of the log; an unfinished last line
// counts as one. Looks back at most 64 MiB.
Result<uint64_t> tail_begin(LogFile* file, uint64_t count, uint64_t end = UINT64_MAX);

}  // namespace dl::logs
