// SPDX-License-Identifier: Apache-2.0
// Reads one learner's log at any place: the file that the agent wrote, or the compressed file that has replaced it
// (compress.h). In both cases offsets count the bytes that the learner wrote. No link below the job directory is
// followed, and nothing but a regular file is opened, since root reads logs of users.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::logs {

class LogFile {
 public:
  // `relative` to the job directory `root`: "logs/attempt-1/learner-0.log"; without such a file the same with ".zst".
  // kNotFound, kDenied, kInvalid (a link, or no regular file), kCorrupt (a damaged compressed file), kIo.
  static Result<LogFile> open(const std::string& root, const std::string& relative);

  // Bytes that the learner wrote so far. A log that is still written grows.
  Result<uint64_t> size() const;
  int64_t changed_ms() const { return changed_ms_; }  // last change when it was opened, since the epoch

  // Reads at most `most` bytes at `offset` into *to, which is overwritten; empty at the end. A part that the agent has
  // dropped (launcher/agent/log_limit.h) is skipped: *offset becomes that of the first byte that was read.
  Status read(uint64_t* offset, size_t most, std::string* to);

 private:
  struct Frame {
    uint64_t at = 0;      // in the file
    uint64_t offset = 0;  // of its first byte in the log
    uint32_t packed = 0, bytes = 0;
  };
  Status open_frames();
  Status read_frames(uint64_t* offset, size_t most, std::string* to);

  UniqueFd fd_;
  std::string name_;
  int64_t changed_ms_ = 0;
  bool compressed_ = false;
  std::vector<Frame> frames_;
  uint64_t unpacked_ = 0;
  std::optional<size_t> held_;  // the frame in frame_
  std::string frame_;
};

}  // namespace dl::logs
