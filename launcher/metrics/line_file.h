// SPDX-License-Identifier: Apache-2.0
// Reads the lines of a file to which another process appends. Lines end with "\n"; if the file has progress bars, also
// with "\r". Of a line that is longer than the limit only the beginning is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::metrics {

// Opens a regular file for reading. A pipe or a device is refused with kInvalid, without waiting for it; kNotFound if
// there is no such file.
Result<UniqueFd> open_regular(const std::string& path);

class LineFile {
 public:
  using Line = std::function<void(std::string_view)>;

  LineFile() = default;
  // position: offset of the line to begin with. longest: bytes given of one line. bars: whether "\r" ends lines, too.
  LineFile(std::string path, uint64_t position, size_t longest, bool bars);

  // Reads at most `most` bytes, and passes the lines in them to `line`. False if there was nothing to read, also as
  // long as the file does not exist.
  Result<bool> read(size_t most, const Line& line);
  // To be called when the file grows no more: passes on the last line, if it has no newline.
  void finish(const Line& line);
  // The position from which a later LineFile continues: all lines before it were given.
  uint64_t position() const { return done_; }
  const UniqueFd& fd() const { return fd_; }

 private:
  void feed(std::string_view data, const Line& line);

  std::string path_;
  size_t longest_ = 0;
  bool bars_ = false;
  UniqueFd fd_;
  uint64_t read_ = 0, done_ = 0;
  std::string rest_;       // of a line that has not ended
  bool skipping_ = false;  // the rest of a line that was too long
};

}  // namespace dl::metrics
