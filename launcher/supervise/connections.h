// SPDX-License-Identifier: Apache-2.0
// The connections of agents and of PMIx servers, as their owners use them. ControlServer implements them with sockets,
// tests without.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/protocol/control_protocol.h"
#include "launcher/protocol/two_ways.h"

namespace dl::supervise {

using ConnectionId = uint64_t;  // never used twice; 0: none

class Connections {
 public:
  Connections() = default;
  virtual ~Connections() = default;
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Sends a message. An unknown id is ignored: that connection was closed a moment ago.
  void send(ConnectionId id, const protocol::ControlMessage& message) { send_line(id, encode(message)); }
  // The same for a text from encode(), which saves work if many get the same message.
  virtual void send_line(ConnectionId id, const std::string& line) = 0;
  // Sends a ping, which also acknowledges what has come.
  virtual void ping(ConnectionId id) = 0;
  // Closes the connection once all data is sent, and ends its session. No handler is called.
  virtual void close(ConnectionId id) = 0;

  // Opens a session, which outlives connections that break (agent_session.h). Call it when an agent has said hello,
  // before anything is sent. If the kernel has no random numbers, the agent goes on without a session.
  virtual void open_session(ConnectionId id) = 0;
  virtual bool has_session(ConnectionId id) const = 0;
  // False if the connection is broken and its session waits for another one.
  virtual bool connected(ConnectionId id) const = 0;

  // The rest is for ids with a session alone.
  // True as long as the other side's kernel has not acknowledged all data.
  virtual bool unacknowledged(ConnectionId id) const = 0;
  // Sends a datagram that the agent answers if it is alive.
  virtual void probe(ConnectionId id) = 0;
  // Reads datagrams that have come. Call it before verdict(), because this process may have stood still meanwhile.
  virtual void read_beats() = 0;
  virtual protocol::Verdict verdict(ConnectionId id) const = 0;
  virtual protocol::Udp udp(ConnectionId id) const = 0;
  // When the last datagram of the agent came, monotonic; -1: none has.
  virtual int64_t answered_ms(ConnectionId id) const = 0;
};

// True if a connection broke because the other side was silent, and not because its kernel closed the connection.
inline bool is_silence(const std::string& why) {
  return why.find("timed out") != std::string::npos || why.find("unreachable") != std::string::npos;
}

}  // namespace dl::supervise
