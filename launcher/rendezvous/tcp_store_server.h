// SPDX-License-Identifier: Apache-2.0
// A server of PyTorch's TCPStore protocol, in a thread of its own with its own libuv loop, so that dlrun's supervision
// and ten thousand clients do not wait for each other. It shares nothing with other threads and needs no lock.
//
// Clients are not trusted: a client that violates the protocol, or exceeds the limits of wire.h and
// ServeLimits, is cut off, and no other is harmed. A client that does not read its replies is not served until
// it does.
//
// While a server exists, the process's soft limit of open files is raised to the hard limit (1,048,576 at most).
#pragma once

#include <memory>

#include "common/base/result.h"
#include "launcher/rendezvous/peer_check.h"
#include "launcher/rendezvous/serve.h"

namespace dl::rendezvous {

class TcpStoreServer {
 public:
  // Listens on a port that the kernel chooses, on all addresses (IPv6 included where the machine has it), with the
  // longest backlog the kernel allows, and serves from then on. The store is empty at first. kIo if it cannot listen.
  // `check`: decides who may use it (peer_check.h).
  static Result<std::unique_ptr<TcpStoreServer>> start(const ServeLimits& limits = {}, PeerCheck check = {});
  // Closes all connections and ends the thread.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const;
  // Whether anybody has connected yet, allowed to or not.
  bool was_used() const;

 private:
  struct Loop;
  explicit TcpStoreServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace dl::rendezvous
