// SPDX-License-Identifier: Apache-2.0
// Who may use a rendezvous. Neither PyTorch's nor Horovod's protocol has a password, so whoever reaches the port could
// read and write; a server asks here whose the other end of a new connection is, before it reads a byte of it.
#pragma once

#include <functional>
#include <string>

namespace dl::rendezvous {

struct Connection {
  std::string client;  // numeric address of the other end
  int client_port = 0;
  int server_port = 0;
};

// Called on a thread of the server's; `answer` (true: serve it, false: cut it off) is to be called once, from any
// thread, at once or later, also when the server is gone by then. Empty: everybody may.
using PeerCheck = std::function<void(const Connection& connection, std::function<void(bool)> answer)>;

}  // namespace dl::rendezvous
