// SPDX-License-Identifier: Apache-2.0
// Finds out which user, and which process, has opened the socket of a TCP connection on this node, from /proc/net/tcp
// and tcp6 (proc(5)).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace dl::agent {

struct Socket {
  std::string local;  // numeric address, of this node; IPv4 also in its IPv6 form
  int local_port = 0, remote_port = 0;
};

struct SocketOwner {
  unsigned uid = 0;
  uint64_t inode = 0;
  bool operator==(const SocketOwner& other) const { return uid == other.uid && inode == other.inode; }
};

// The owner by the text of /proc/net/tcp or tcp6; none if the connection is not in it. Pure.
std::optional<SocketOwner> owner_in(const std::string& table, const Socket& socket);
// The user id; none if this node has no such connection (any more).
std::optional<unsigned> socket_owner(const Socket& socket);
// A process that has the socket open; 0 if there is none, or none that this user may look into.
pid_t socket_process(const Socket& socket);

}  // namespace dl::agent
