// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/session_buffer.h"

namespace dl::protocol {

void SessionBuffer::add(const std::string& line) {
  ++said_;
  bytes_ += line.size();
  if (bytes_ <= limit_) {
    lines_.push_back(line);
    return;
  }
  lines_.clear();
  bytes_ = 0;
  acknowledged_ = said_;
}

bool SessionBuffer::acknowledge(uint64_t received) {
  if (received > said_) return false;
  for (; acknowledged_ < received; ++acknowledged_) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
  return true;
}

std::string SessionBuffer::rest() const {
  std::string all;
  all.reserve(bytes_);
  for (const std::string& line : lines_) all += line;
  return all;
}

}  // namespace dl::protocol
