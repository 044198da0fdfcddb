// SPDX-License-Identifier: Apache-2.0
// dlrun's control port: listens on one TCP port, accepts clients that know the job's secret, and hands their messages
// on. Runs on libuv's loop, in one thread.
//
// An agent's connection may be given a session: its id then outlives connections that break (agent_session.h). Messages
// sent while it is broken are kept, and those that got lost are sent again: each arrives once, in order.
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
#include "launcher/supervise/agent_session.h"
#include "launcher/supervise/beat_socket.h"
#include "launcher/supervise/connections.h"
#include "launcher/supervise/strangers.h"

namespace dl::supervise {

class ControlServer final : public Connections {
 public:
  struct Handlers {
    std::function<void(ConnectionId, const protocol::Hello&)> on_hello;             // the secret was right
    std::function<void(ConnectionId, const protocol::ControlMessage&)> on_message;  // after that
    std::function<void(ConnectionId, const std::string& why)> on_closed;  // by the other side, or after malformed data
    // Instead of on_closed if there is a session: verdict() tells what it means, and may change. The id stays until
    // close().
    std::function<void(ConnectionId, const std::string& why)> on_broken;
    std::function<void(ConnectionId)> on_resumed;  // comes before the messages of the meantime
    std::function<void(ConnectionId)> on_refused;  // datagrams to it are refused, and its connection is broken
  };

  ControlServer(uv_loop_t* loop, std::string secret, Handlers handlers);
  // The loop must be run once more after close_all() before this is destroyed.
  ~ControlServer() override;

  // Listens on any address, a free port (IPv6 included where the machine has it).
  Status listen();
  int port() const { return port_; }
  // How many of the job's own processes may connect at the same moment, perhaps all from one address.
  void expect(size_t own) { strangers_.expect(own); }

  // Closes everything, the port included.
  void close_all();

  void send_line(ConnectionId id, const std::string& line) override;
  void ping(ConnectionId id) override;
  void close(ConnectionId id) override;  // on_closed is not called
  // control_sessions.cpp
  void open_session(ConnectionId id) override;
  bool has_session(ConnectionId id) const override { return sessions_.count(id) > 0; }
  bool connected(ConnectionId id) const override { return connections_.count(id) > 0; }
  bool unacknowledged(ConnectionId id) const override;
  void probe(ConnectionId id) override;
  void read_beats() override { beats_.read(); }
  protocol::Verdict verdict(ConnectionId id) const override;
  protocol::Udp udp(ConnectionId id) const override;
  int64_t answered_ms(ConnectionId id) const override;

  struct Connection;

 private:
  friend struct Connection;
  bool resume(Connection* connection, const protocol::Resume& resume);
  bool note_arrival(Connection* connection, const Result<protocol::ControlMessage>& message);
  void heard_beat(const protocol::HeardBeat& heard, const BeatPeer& from);
  void beat_refused(const BeatPeer& to);
  void write(Connection* connection, std::string data);
  static void abandon(Connection* connection);
  static void on_connection(uv_stream_t* server, int status);
  void drop(Connection* connection, const std::string& why);
  void greet(Connection* connection);
  void close_overdue();
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
  Strangers strangers_;
  uv_timer_t* patience_ = nullptr;  // runs while there are strangers
  BeatSocket beats_;
  // The receive buffer of all connections: libuv fills it and hands it on before it reads from another one.
  std::vector<char> buffer_ = std::vector<char>(65536);
};

struct ControlServer::Connection {
  uv_tcp_t handle{};
  ControlServer* server = nullptr;  // nullptr once closing
  ConnectionId id = 0;
  bool known = false;
  protocol::LineSplitter splitter{protocol::kMaxHelloBytes};
};

// The numeric address at which other machines reach this one: that of the interface which leads to `peer` (a host name
// or address); 127.0.0.1 if peer is empty. kNotFound if peer has no address, kIo if no route leads to it.
Result<std::string> address_towards(const std::string& peer);

}  // namespace dl::supervise
