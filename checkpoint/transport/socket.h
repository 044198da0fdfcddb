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
// "127.0.0.1 4711"; nullopt unless it is a numeric address and a port.
std::string format_endpoint(const Endpoint& endpoint);
Result<Endpoint> parse_endpoint(std::string_view text);

// The address that ranks on other hosts reach us by; `wanted` (an interface's name or an address) may be empty.
// kNotFound.
Result<std::string> own_address(const std::string& wanted);

// Listens on an ephemeral port of this address; *endpoint tells which. The socket does not block.
Result<UniqueFd> listen_on(const std::string& address, Endpoint* endpoint);
// Connected, blocking, with both directions' time limit set. kTimeout, kIo.
Result<UniqueFd> connect_to(const Endpoint& endpoint, double timeout_s);

// Send or receive everything on a blocking socket. kTimeout if nothing is transferred for the socket's time limit; kIo,
// also if the other end has closed. send_all never raises SIGPIPE.
Status send_all(int fd, const void* data, size_t size);
Status receive_all(int fd, void* data, size_t size);

}  // namespace dl::ckpt
