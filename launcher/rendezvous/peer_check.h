// SPDX-License-Identifier: Apache-2.0
// Decides who may use a rendezvous. Neither PyTorch's nor Horovod's protocol has a password, so anybody who reaches the
// port could read and write. A server calls this for each new connection, before it reads a byte from it.
#pragma once

#include <functional>
#include <string>

namespace dl::rendezvous {

struct Connection {
  std::string client;  // numeric address of the client's end
  int client_port = 0;
  int server_port = 0;
};

// Called on a thread of the server. The callee calls `answer` (true: serve it, false: cut it off) once, from any
// thread, at once or later, even after the server was destroyed. Empty: everybody may use the server.
using PeerCheck = std::function<void(const Connection& connection, std::function<void(bool)> answer)>;

}  // namespace dl::rendezvous
