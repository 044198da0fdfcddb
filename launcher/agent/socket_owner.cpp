// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/socket_owner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace dl::agent {
namespace {

using Address = std::array<unsigned char, 16>;  // an IPv4 address is kept as ::ffff:a.b.c.d

std::optional<Address> parse_address(const std::string& text) {
  Address address{};
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  address[10] = address[11] = 0xff;
  if (::inet_pton(AF_INET, text.c_str(), address.data() + 12) == 1) return address;
  return std::nullopt;
}

struct End {
  Address address{};
  unsigned port = 0;
};

// Parses an address of /proc/net/tcp such as "0100007F:1F90": 32-bit numbers in the byte order of the machine, each of
// them four bytes of the address in network order.
std::optional<End> parse_end(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon != 8 && colon != 32) return std::nullopt;
  End end;
  size_t at = 0;
  if (colon == 8) {
    end.address[10] = end.address[11] = 0xff;
    at = 12;
  }
  try {
    for (size_t i = 0; i < colon; i += 8, at += 4) {
      const auto word = static_cast<uint32_t>(std::stoul(text.substr(i, 8), nullptr, 16));
      std::memcpy(end.address.data() + at, &word, sizeof word);
    }
    end.port = static_cast<unsigned>(std::stoul(text.substr(colon + 1), nullptr, 16));
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return end;
}

std::optional<SocketOwner> find_owner(const Socket& socket) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    if (const auto owner = owner_in(text.str(), socket)) return owner;
  }
  return std::nullopt;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = ::opendir(folder.c_str());
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open)) names.emplace_back(entry->d_name);
  ::closedir(open);
  return names;
}

}  // namespace

std::optional<SocketOwner> owner_in(const std::string& table, const Socket& socket) {
  const auto local = parse_address(socket.local);
  if (!local) return std::nullopt;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);  // the header
  while (std::getline(lines, line)) {
    std::istringstream columns(line);
    std::string number, here, there, state, queues, timer, retransmits, timeout;
    SocketOwner owner;
    if (!(columns >> number >> here >> there >> state >> queues >> timer >> retransmits >> owner.uid)) continue;
    columns >> timeout >> owner.inode;
    const auto from = parse_end(here), to = parse_end(there);
    if (from && to && from->address == *local && from->port == static_cast<unsigned>(socket.local_port) &&
        to->port == static_cast<unsigned>(socket.remote_port))
      return owner;
  }
  return std::nullopt;
}

std::optional<unsigned> socket_owner(const Socket& socket) {
  const auto owner = find_owner(socket);
  return owner ? std::optional<unsigned>(owner->uid) : std::nullopt;
}

pid_t socket_process(const Socket& socket) {
  const auto owner = find_owner(socket);
  if (!owner || owner->inode == 0) return 0;
  const std::string wanted = "socket:[" + std::to_string(owner->inode) + "]";
  for (const std::string& pid : names_in("/proc")) {
    if (std::isdigit(static_cast<unsigned char>(pid[0])) == 0) continue;
    const std::string folder = "/proc/" + pid + "/fd";
    for (const std::string& fd : names_in(folder)) {
      char target[64];
      const ssize_t size = ::readlink((folder + "/" + fd).c_str(), target, sizeof target);
      if (size > 0 && wanted == std::string(target, static_cast<size_t>(size))) return std::atoi(pid.c_str());
    }
  }
  return 0;
}

}  // namespace dl::agent
