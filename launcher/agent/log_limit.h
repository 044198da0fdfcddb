// SPDX-License-Identifier: Apache-2.0
// Keeps a log within a limit: its beginning and its newest part stay, and what lies between is given back to the file
// system as a hole, so that all other bytes keep their places and the file stays what the learner wrote. The last bytes
// before the hole are replaced by a line that says how much was dropped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace dl::agent {

// Where a log is cut. Pure.
struct Cut {
  uint64_t head = 0;  // bytes kept at the beginning, a multiple of kCutUnit
  uint64_t to = 0;    // the newest part begins here; a multiple of kCutUnit. 0: nothing is dropped
};
constexpr uint64_t kCutUnit =
    1 << 20;  // so that a frame of a compressed log (launcher/logs) is dropped as a whole or not
constexpr uint64_t kMostHead = 64 << 20;
constexpr uint64_t kLeastLimit = 8 << 20;
// For a log of `size` bytes of which [head, dropped_to) are gone already (dropped_to 0: none). A quarter of the newest
// part is dropped at once, so that this is done seldom.
Cut plan_cut(uint64_t limit, uint64_t size, uint64_t dropped_to);

class LogLimit {
 public:
  // Frees a part of a file, as fallocate(2) with FALLOC_FL_PUNCH_HOLE does: 0, or -1 with errno. Tests give another
  // one.
  using Punch = int (*)(int fd, off_t at, off_t bytes);

  // limit: bytes; 0: none, else at least kLeastLimit. size: bytes of the log now.
  void begin(std::string path, uint64_t limit, uint64_t size, Punch punch = nullptr);
  // To be called after each write that made the log longer.
  void grew(uint64_t bytes);
  uint64_t size() const { return size_; }

 private:
  Status drop(const Cut& cut);
  Status move_tail(int fd, const Cut& cut);

  std::string path_;
  uint64_t limit_ = 0, size_ = 0, dropped_to_ = 0, lost_ = 0;
  Punch punch_ = nullptr;
};

}  // namespace dl::agent
