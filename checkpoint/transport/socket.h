// SPDX-License-Identifier: Apache-2.0
// TCP sockets for the exchange: addresses, listening, connecting, whole transfers, each with a time limit.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::ckpt {

struct Endpoint {
  std::string address;  // numeric IPv4 or IPv6
  int port = 0;
};
// "127.0.0.1 4711" and back; nullopt if the text is not a numeric address and a port.
std::string format_endpoint(const Endpoint& endpoint);
Result<Endpoint> parse_endpoint(std::string_view text);

// The address at which ranks on other hosts can reach us; `wanted` (the name of an interface, or an address) may be
// empty. kNotFound.
Result<std::string> own_address(const std::string& wanted);

// Listens on an ephemeral port of this address; *endpoint receives both. The socket does not block.
Result<UniqueFd> listen_on(const std::string& address, Endpoint* endpoint);
// A connected, blocking socket whose time limit is set for both directions. kTimeout, kIo.
Result<UniqueFd> connect_to(const Endpoint& endpoint, double timeout_s);

// Send or receive all bytes on a blocking socket. kTimeout if nothing is transferred within the socket's time limit;
// kIo, also if the other end has closed. send_all never raises SIGPIPE.
Status send_all(int fd, const void* data, size_t size);
Status receive_all(int fd, void* data, size_t size);

}  // namespace dl::ckpt
