// SPDX-License-Identifier: Apache-2.0
// The agent's connection to dlrun, on a non-blocking socket: its loop waits on fd() with events().
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/common/unique_fd.h"
#include "launcher/supervise/control_protocol.h"

namespace dl::agent {

class Channel {
 public:
  Channel() : splitter_(supervise::kMaxLineBytes) {}

  // Connects to a numeric address. A full backlog (ECONNREFUSED, time-outs) is tried again until `limit`.
  Status connect(const std::string& host, int port, std::chrono::milliseconds limit);
  // Numeric address of our end.
  std::string local_address() const;

  void send(const supervise::Message& message);
  // Reads what has come. An empty list and closed() after the peer has gone or sent nonsense.
  std::vector<supervise::Message> receive();
  void write_pending();

  int fd() const { return fd_.get(); }
  bool closed() const { return !fd_; }
  bool has_pending() const { return !out_.empty(); }
  // Sends the rest and waits until dlrun has closed its end, so that nothing said is lost; at most `limit`.
  void close(std::chrono::milliseconds limit);

 private:
  UniqueFd fd_;
  std::string out_;
  supervise::LineSplitter splitter_;
};

}  // namespace dl::agent
