// SPDX-License-Identifier: Apache-2.0
// Reads the lines of a file that another process writes on. Lines end with "\n"; where progress bars are drawn, they
// end with "\r", too. Of a line that is longer than the limit the beginning is given, and the rest is passed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::metrics {

// Opens a regular file for reading. A pipe or a device is refused without waiting for it; kNotFound if there is none.
Result<UniqueFd> open_regular(const std::string& path);

class LineFile {
 public:
  using Line = std::function<void(std::string_view)>;

  LineFile() = default;
  // `position`: where to begin, at the beginning of a line.
  LineFile(std::string path, uint64_t position, size_t longest, bool bars);

  // Gives the next lines, of at most `most` bytes. True if it read some; false, too, as long as there is no such file.
  Result<bool> read(size_t most, const Line& line);
  // No more will be written: gives the line that has no end.
  void finish(const Line& line);
  // Where to begin later: all lines before it were given.
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
