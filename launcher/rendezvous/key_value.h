// SPDX-License-Identifier: Apache-2.0
// Horovod's rendezvous as one HTTP request after the other on a key-value store: what is asked, and what is answered.
// Pure; sockets and threads are http_store_server's. Clients are hostile until shown otherwise: what is not a request
// of Horovod's, or goes beyond the limits, is answered with an error and changes nothing.
//
// Source: horovod/common/gloo/http_store.cc, horovod/runner/http/http_server.py (0.28.1).
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace dl::rendezvous {

struct KeyValueLimits {
  size_t path = 4096;                 // bytes of "/scope/key"
  size_t value = size_t{8} << 20;     // bytes of one value
  size_t stored = size_t{256} << 20;  // bytes of all paths and values
};

struct HttpReply {
  int status = 200;  // 400 not such a path, 404 absent, 405 method, 413 value too long, 507 store full
  std::string body;  // of a GET that was answered with 200
};

class KeyValueStore {
 public:
  explicit KeyValueStore(const KeyValueLimits& limits = {}) : limits_(limits) {}

  // GET, PUT and DELETE of "/SCOPE/KEY", neither empty. DELETE of what is absent is no error: by it a rank says that it
  // has met all others in this scope, whose keys are the ranks; the next meeting in the scope finds nothing of this
  // one. `body` counts for PUT alone, and replaces what was there.
  HttpReply handle(const std::string& method, const std::string& path, std::string body);

 private:
  KeyValueLimits limits_;
  std::map<std::string, std::string> values_;  // by path
  size_t stored_ = 0;
};

}  // namespace dl::rendezvous
