// SPDX-License-Identifier: Apache-2.0
// An HTTP server for Horovod's rendezvous (key_value.h), in civetweb's threads. Each connection serves one request, as
// Horovod's client expects, and is closed after two seconds of silence, so that a silent client delays others and the
// end of the server by no more than that.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "launcher/rendezvous/key_value.h"
#include "launcher/rendezvous/peer_check.h"

namespace dl::rendezvous {

class HttpStoreServer {
 public:
  // Listens on a port that the kernel chooses, on all addresses (IPv6 included if the machine has it), and serves from
  // then on. The store is empty at first. kIo if it cannot listen.
  // `check`: decides who may use it (peer_check.h).
  static Result<std::unique_ptr<HttpStoreServer>> start(const KeyValueLimits& limits = {}, PeerCheck check = {});
  // Ends the threads; waits for a request that is under way, two seconds at most.
  ~HttpStoreServer();
  HttpStoreServer(const HttpStoreServer&) = delete;
  HttpStoreServer& operator=(const HttpStoreServer&) = delete;

  int port() const;

 private:
  struct State;
  explicit HttpStoreServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dl::rendezvous
