// SPDX-License-Identifier: Apache-2.0
// Whose a TCP connection of this node is: the user who opened its socket, as the kernel tells everybody (proc(5),
// /proc/net/tcp and tcp6).
#pragma once

#include <optional>
#include <string>

namespace dl::agent {

struct Socket {
  std::string local;  // numeric address, of this node; IPv4 also in its IPv6 form
  int local_port = 0, remote_port = 0;
};

// In the text of /proc/net/tcp or tcp6. Pure.
std::optional<unsigned> owner_in(const std::string& table, const Socket& socket);
// Nothing where this node has no such connection (any more).
std::optional<unsigned> socket_owner(const Socket& socket);

}  // namespace dl::agent
