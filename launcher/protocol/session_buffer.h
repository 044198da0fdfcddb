// SPDX-License-Identifier: Apache-2.0
// Keeps the lines that one side of a session has sent and the other has not yet acknowledged, so that they can be sent
// again over a new connection. Pure. Lines are counted from 1; pings and the lines that open or resume a session do not
// count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace dl::protocol {

constexpr size_t kMaxUnacknowledgedBytes = 8 << 20;  // two of the longest lines

class SessionBuffer {
 public:
  explicit SessionBuffer(size_t limit = kMaxUnacknowledgedBytes) : limit_(limit) {}

  // Adds a line, with its newline. If that exceeds the limit, all lines are dropped, and the session cannot be taken up
  // again until the other side has acknowledged them.
  void add(const std::string& line);
  // The other side has received the first `received` lines. False if that is more than were sent.
  bool acknowledge(uint64_t received);
  // Whether all lines after the first `received` can be sent again.
  bool can_repeat(uint64_t received) const { return received >= acknowledged_ && received <= said_; }
  // The lines that are not acknowledged, in order.
  std::string rest() const;
  bool empty() const { return lines_.empty(); }

 private:
  size_t limit_, bytes_ = 0;
  uint64_t said_ = 0, acknowledged_ = 0;  // acknowledged or dropped
  std::deque<std::string> lines_;         // from acknowledged_ + 1 to said_
};

}  // namespace dl::protocol
