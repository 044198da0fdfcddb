// SPDX-License-Identifier: Apache-2.0
// A server of PyTorch's TCPStore protocol, in a thread of its own with its own libuv loop, so that neither dlrun's
// supervision waits for ten thousand clients nor they for it. Shares nothing with other threads: no lock.
//
// Clients are hostile until shown otherwise: what is not the protocol, or goes beyond the limits of wire.h and
// ServeLimits, closes its connection and harms no other. A client that does not read its replies is not served on until
// it does.
//
// While there is a server, the process's soft limit of open descriptors is raised to its hard one (1,048,576 at most).
#pragma once

#include <memory>

#include "common/base/result.h"
#include "launcher/rendezvous/peer_check.h"
#include "launcher/rendezvous/serve.h"

namespace dl::rendezvous {

class TcpStoreServer {
 public:
  // Listens on a port that the kernel chooses, on all addresses (IPv6 included where the machine has it), with the
  // longest backlog the kernel allows, and serves from then on. The store is empty. kIo if there are no descriptors.
  // `check`: who may use it.
  static Result<std::unique_ptr<TcpStoreServer>> start(const ServeLimits& limits = {}, PeerCheck check = {});
  // Closes all connections and ends the thread.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const;

 private:
  struct Loop;
  explicit TcpStoreServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace dl::rendezvous
