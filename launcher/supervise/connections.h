// SPDX-License-Identifier: Apache-2.0
// The connections of agents and of PMIx servers, as their owners use them. ControlServer has the real ones, tests have
// others: no socket here.
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

  // Unknown ids are ignored: the connection has just been closed.
  void send(ConnectionId id, const Message& message) { send_line(id, encode(message)); }
  // The same for what encode() gave, where many are told the same.
  virtual void send_line(ConnectionId id, const std::string& line) = 0;
  // Keeps data under way, and acknowledges what has come.
  virtual void ping(ConnectionId id) = 0;
  // Closes after what was sent has gone out, and ends the session; nobody is told of it.
  virtual void close(ConnectionId id) = 0;

  // A session outlives connections that break (agent_session.h). To be opened when an agent says hello, before anything
  // is sent; without random numbers there is none, and all goes on without.
  virtual void open_session(ConnectionId id) = 0;
  virtual bool has_session(ConnectionId id) const = 0;
  // Whether there is a connection, and no session that waits for one.
  virtual bool connected(ConnectionId id) const = 0;

  // Of ids without a session the rest is not to be asked.
  // Whether the other side's kernel has not acknowledged all that was sent.
  virtual bool unacknowledged(ConnectionId id) const = 0;
  // Asks by a datagram whether the agent is there.
  virtual void probe(ConnectionId id) = 0;
  // Reads what has come by datagrams: before a verdict, where this process may have stood still meanwhile.
  virtual void read_beats() = 0;
  virtual Verdict verdict(ConnectionId id) const = 0;
  virtual Udp udp(ConnectionId id) const = 0;
  // When its agent was last heard by a datagram, monotonic; -1: never.
  virtual int64_t answered_ms(ConnectionId id) const = 0;
};

// Whether a connection that was lost for this reason was silent, and not closed by the other side's kernel.
inline bool is_silence(const std::string& why) {
  return why.find("timed out") != std::string::npos || why.find("unreachable") != std::string::npos;
}

}  // namespace dl::supervise
