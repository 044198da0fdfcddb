// SPDX-License-Identifier: Apache-2.0
// Horovod's rendezvous: carries out HTTP requests, one after another, on a key-value store. Pure; http_store_server has
// the sockets and threads. Clients are not trusted: what is not a request of Horovod's, or exceeds the limits, is
// answered with an error and changes nothing.
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
  int status = 200;  // 400 malformed path, 404 no such key, 405 method, 413 value too long, 507 store full
  std::string body;  // of a GET that was answered with 200
};

class KeyValueStore {
 public:
  explicit KeyValueStore(const KeyValueLimits& limits = {}) : limits_(limits) {}

  // GET, PUT and DELETE of "/SCOPE/KEY", neither empty. DELETE of a missing key is no error: a rank deletes the key
  // with its own number to tell that it has met all others in this scope, so that the next meeting in the scope finds
  // nothing old. `body` is used by PUT alone, and replaces the value.
  HttpReply handle(const std::string& method, const std::string& path, std::string body);

 private:
  KeyValueLimits limits_;
  std::map<std::string, std::string> values_;  // by path
  size_t stored_ = 0;
};

}  // namespace dl::rendezvous
