// SPDX-License-Identifier: Apache-2.0
// What one side of a session has said and the other has not yet acknowledged: kept, so that it can be said again over a
// new connection. Pure. Lines are counted from 1 on; pings and the lines that open or resume a session are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace dl::supervise {

constexpr size_t kMaxUnacknowledgedBytes = 8 << 20;  // two of the longest lines

class SessionBuffer {
 public:
  explicit SessionBuffer(size_t limit = kMaxUnacknowledgedBytes) : limit_(limit) {}

  // A line, with its newline. Beyond the limit all is forgotten, and the session cannot be taken up again until the
  // other side has acknowledged what was forgotten.
  void add(const std::string& line);
  // The other side has got the first `received` lines. False if that cannot be: more than were said.
  bool acknowledge(uint64_t received);
  // Whether all after the first `received` lines can be said again.
  bool can_repeat(uint64_t received) const { return received >= acknowledged_ && received <= said_; }
  // What is not acknowledged, in order.
  std::string rest() const;
  bool empty() const { return lines_.empty(); }

 private:
  size_t limit_, bytes_ = 0;
  uint64_t said_ = 0, acknowledged_ = 0;  // acknowledged, or forgotten
  std::deque<std::string> lines_;         // from acknowledged_ + 1 to said_
};

}  // namespace dl::supervise
