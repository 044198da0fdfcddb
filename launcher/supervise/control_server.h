// SPDX-License-Identifier: Apache-2.0
// dlrun's control port: listens on one TCP port, lets in whoever knows the job's secret, and hands messages on. On
// libuv's loop, in one thread.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/common/result.h"
#include "launcher/supervise/control_protocol.h"

namespace dl::supervise {

using ConnectionId = uint64_t;  // never used twice

class ControlServer {
 public:
  struct Handlers {
    std::function<void(ConnectionId, const Hello&)> on_hello;             // the secret was right
    std::function<void(ConnectionId, const Message&)> on_message;         // after that
    std::function<void(ConnectionId, const std::string& why)> on_closed;  // by the other side, or because of nonsense
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
  // Closes after what was sent has gone out; on_closed is not called.
  void close(ConnectionId id);
  // Closes everything, the port included.
  void close_all();

  struct Connection;

 private:
  friend struct Connection;
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
  // For what is being read: libuv asks for it, fills it and hands it on before it turns to another connection.
  std::vector<char> buffer_ = std::vector<char>(65536);
};

// The numeric address at which other machines reach this one: that of the interface which leads to `peer` (a host name
// or address); 127.0.0.1 if peer is empty. kNotFound if peer has no address or there is no way to it.
Result<std::string> address_towards(const std::string& peer);

}  // namespace dl::supervise
