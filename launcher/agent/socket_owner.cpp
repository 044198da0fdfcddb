// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/socket_owner.h"

#include <arpa/inet.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

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

}  // namespace

std::optional<unsigned> owner_in(const std::string& table, const Socket& socket) {
  const auto local = parse_address(socket.local);
  if (!local) return std::nullopt;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);  // the header
  while (std::getline(lines, line)) {
    std::istringstream columns(line);
    std::string number, here, there, state, queues, timer, retransmits;
    unsigned uid = 0;
    if (!(columns >> number >> here >> there >> state >> queues >> timer >> retransmits >> uid)) continue;
    const auto from = parse_end(here), to = parse_end(there);
    if (from && to && from->address == *local && from->port == static_cast<unsigned>(socket.local_port) &&
        to->port == static_cast<unsigned>(socket.remote_port))
      return uid;
  }
  return std::nullopt;
}

std::optional<unsigned> socket_owner(const Socket& socket) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    if (const auto uid = owner_in(text.str(), socket)) return uid;
  }
  return std::nullopt;
}

}  // namespace dl::agent
