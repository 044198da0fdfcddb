// SPDX-License-Identifier: Apache-2.0
// The agent's connection to dlrun, on non-blocking sockets: the agent's loop waits on the descriptors from watch().
//
// If dlrun offers a session, a connection that breaks is taken up again, and each message arrives exactly once
// (channel_resume.cpp). closed() then becomes true only if dlrun has ended or given this agent up, or has
// acknowledged nothing, by TCP or UDP, for kAgentLeaseMs (two_ways.h), after which a learner must not train on by
// itself.
#pragma once

#include <netdb.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "launcher/protocol/beats.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/protocol/session_buffer.h"

namespace dl::protocol {

class Channel {
 public:
  Channel() : splitter_(kMaxLineBytes) {}

  // Connects to a numeric address. Blocks; failures such as a full backlog (ECONNREFUSED, a timeout) are tried again
  // until `limit`. kInvalid: not an address; else the error of the last try.
  Status connect(const std::string& host, int port, std::chrono::milliseconds limit);
  // Numeric address of this end.
  std::string local_address() const { return local_address_; }

  // Sends Hello, which must be the first message.
  void greet(Hello hello);
  void send(const ControlMessage& message);  // kept and sent later while the connection is broken

  // What to poll() for: the connection, and the socket of the heartbeats. A descriptor may be -1, which poll() ignores.
  static constexpr int kWatched = 2;
  void watch(pollfd* fds) const;
  // To be called after poll() with its results: reads and writes. Returns the messages that have come.
  std::vector<ControlMessage> handle(const pollfd* fds);
  // Does what is due: pings, heartbeats, new tries to connect, and the end of the agent's time without dlrun
  // (kAgentLeaseMs). Call it at least each 100 ms.
  void tick();

  bool closed() const { return state_ == State::kClosed; }
  // To be called when all was sent: if dlrun closes the connection from now on, that is its regular end.
  void expect_end() { end_expected_ = true; }
  // Sends the rest and waits until dlrun has closed its end, so that no message is lost; for `limit` at most.
  void close(std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;
  enum class State {
    kOpen,
    kConnecting,  // a broken connection is being opened anew
    kResuming,    // connected; dlrun has not answered yet
    kPausing,     // before another try
    kClosed,
  };
  struct Session {
    OpenSession offer;
    uint64_t tries = 0;
    uint16_t link = 0;
  };

  void write_pending();
  std::vector<ControlMessage> receive();
  bool take(const std::string& line, std::vector<ControlMessage>* messages);
  void ping();
  void look_at_acknowledgements(int64_t now_ms);
  bool anxious(int64_t now_ms) const;

  // channel_resume.cpp
  void open_session(const OpenSession& offer);
  void lose(bool by_end);
  void connect_anew();
  void connected_anew();
  void connection_failed(int failure);
  bool resumed(const Resumed& answer);
  void tick_resume(int64_t now_ms);
  void pause();
  bool lease_over(int64_t now_ms) const;
  void give_up();

  State state_ = State::kClosed;
  UniqueFd fd_;
  std::string out_;  // to be written to fd_
  LineSplitter splitter_;
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> dlrun_{nullptr, &::freeaddrinfo};
  std::string local_address_;
  std::optional<Session> session_;
  SessionBuffer said_;
  Beats beats_;
  bool end_expected_ = false;
  bool one_way_ = false;  // dlrun offers no session
  uint64_t received_ = 0;
  size_t unacknowledged_bytes_ = 0;  // received, and not acknowledged yet
  int64_t last_ping_ms_ = 0;
  int64_t written_ms_ = 0;       // when fd_ was last written to
  int64_t acknowledged_ms_ = 0;  // send time of the newest data that TCP acknowledged
  int64_t nothing_open_ms_ = 0;  // last time at which TCP was known to have acknowledged all written data
  int64_t next_ms_ = 0;          // kPausing: the next try; kConnecting, kResuming: the end of this one
};

}  // namespace dl::protocol
