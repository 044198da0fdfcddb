// SPDX-License-Identifier: Apache-2.0
// HOST:PORT as text, and as sockets have it.
#pragma once

#include <sys/socket.h>

#include <string>

#include "common/base/result.h"

namespace dl::pool {

struct SocketAddress {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// "127.0.0.1:5", "[::1]:5"
std::string endpoint(const std::string& host, int port);

// HOST:PORT with the host's number where it has a name. May wait for a name server. kInvalid: it is no such address, or
// there is no such host; kIo: the name server does not answer.
Result<std::string> numeric_endpoint(const std::string& address);

// Of HOST:PORT with a number, which waits for nothing. kInvalid.
Result<SocketAddress> socket_address(const std::string& endpoint);
// Of a number and a port, to listen at. kInvalid.
Result<SocketAddress> listen_address(const std::string& host, int port);

std::string host_of(const SocketAddress& address);
int port_of(const SocketAddress& address);

}  // namespace dl::pool
