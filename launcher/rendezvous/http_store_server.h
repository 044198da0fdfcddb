// SPDX-License-Identifier: Apache-2.0
// A server of Horovod's rendezvous (key_value.h) over HTTP, in threads of civetweb's. A connection serves one request,
// as Horovod's client has it, and is closed after two seconds of silence, so that one that says nothing holds up
// neither the others nor the end of the server for longer.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "launcher/rendezvous/key_value.h"
#include "launcher/rendezvous/peer_check.h"

namespace dl::rendezvous {

class HttpStoreServer {
 public:
  // Listens on a port that the kernel chooses, on all addresses (IPv6 included where the machine has it), and serves
  // from then on. The store is empty. kIo if it cannot listen.
  // `check`: who may use it.
  static Result<std::unique_ptr<HttpStoreServer>> start(const KeyValueLimits& limits = {}, PeerCheck check = {});
  // Ends the threads; a request that is under way is waited for, two seconds at most.
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
