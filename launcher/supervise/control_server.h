// SPDX-License-Identifier: Apache-2.0
// dlrun's control port: listens on one TCP port, lets in whoever knows the job's secret, and hands messages on. On
// libuv's loop, in one thread.
//
// An agent's connection may be given a session: its id then outlives connections that break (agent_session.h). What is
// sent meanwhile is kept, what was on the way is sent again; each message arrives once, in order.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/awake_clock.h"
#include "common/base/result.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/supervise/agent_session.h"
#include "launcher/supervise/beat_socket.h"

namespace dl::supervise {

using ConnectionId = uint64_t;  // never used twice

class ControlServer {
 public:
  struct Handlers {
    std::function<void(ConnectionId, const Hello&)> on_hello;             // the secret was right
    std::function<void(ConnectionId, const Message&)> on_message;         // after that
    std::function<void(ConnectionId, const std::string& why)> on_closed;  // by the other side, or because of nonsense
    // With a session, instead of on_closed: verdict() tells what it means, each time anew. The id stays until close().
    std::function<void(ConnectionId, const std::string& why)> on_broken;
    std::function<void(ConnectionId)> on_resumed;  // before what was said meanwhile
    std::function<void(ConnectionId)> on_refused;  // its datagrams are refused while its connection is broken
  };

  ControlServer(uv_loop_t* loop, std::string secret, Handlers handlers);
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  // The loop must be run once more after close_all() before this is destroyed.
  ~ControlServer();

  // Listens on any address, a free port (IPv6 included where the machine has it).
  Status listen();
  int port() const { return port_; }

  // Unknown ids are ignored: the connection has just been closed.
  void send(ConnectionId id, const Message& message) { send_line(id, encode(message)); }
  // The same for what encode() gave, where many are told the same.
  void send_line(ConnectionId id, const std::string& line);
  // Keeps data under way, and acknowledges what has come.
  void ping(ConnectionId id);
  // Closes after what was sent has gone out, and ends the session; on_closed is not called.
  void close(ConnectionId id);
  // Closes everything, the port included.
  void close_all();

  // Sessions (control_sessions.cpp). To be opened in on_hello, before anything is sent; without random numbers there is
  // none, and all goes on without. Of ids without a session the rest is not to be asked.
  void open_session(ConnectionId id);
  bool has_session(ConnectionId id) const { return sessions_.count(id) > 0; }
  // Whether there is a connection, and no session that waits for one.
  bool connected(ConnectionId id) const { return connections_.count(id) > 0; }
  // Whether the other side's kernel has not acknowledged all that was sent.
  bool unacknowledged(ConnectionId id) const;
  // Asks by a datagram whether the agent is there.
  void probe(ConnectionId id);
  // Reads what has come by datagrams: before a verdict, where this process may have stood still meanwhile.
  void read_beats() { beats_.read(); }
  Verdict verdict(ConnectionId id) const;
  Udp udp(ConnectionId id) const;
  // When its agent was last heard by a datagram, monotonic; -1: never.
  int64_t answered_ms(ConnectionId id) const;

  struct Connection;

 private:
  friend struct Connection;
  bool resume(Connection* connection, const Resume& resume);
  bool note_arrival(Connection* connection, const Result<Message>& message);
  void heard_beat(const HeardBeat& heard, const BeatPeer& from);
  void beat_refused(const BeatPeer& to);
  void write(Connection* connection, std::string data);
  static void abandon(Connection* connection);
  static void on_connection(uv_stream_t* server, int status);
  void drop(Connection* connection, const std::string& why);
  void receive(Connection* connection, const char* data, size_t size);
  bool handle_line(Connection* connection, const std::string& line);

  uv_loop_t* loop_;
  std::string secret_;
  Handlers handlers_;
  uv_tcp_t* listener_ = nullptr;
  int port_ = 0;
  ConnectionId next_id_ = 1;
  std::map<ConnectionId, Connection*> connections_;  // freed by their close callback
  std::unordered_map<ConnectionId, AgentSession> sessions_;
  BeatSocket beats_;
  // For what is being read: libuv asks for it, fills it and hands it on before it turns to another connection.
  std::vector<char> buffer_ = std::vector<char>(65536);
};

struct ControlServer::Connection {
  uv_tcp_t handle{};
  ControlServer* server = nullptr;  // nullptr once closing
  ConnectionId id = 0;
  bool known = false;
  LineSplitter splitter{kMaxHelloBytes};
};

// The numeric address at which other machines reach this one: that of the interface which leads to `peer` (a host name
// or address); 127.0.0.1 if peer is empty. kNotFound if peer has no address or there is no way to it.
Result<std::string> address_towards(const std::string& peer);

}  // namespace dl::supervise
