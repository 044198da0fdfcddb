// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <utility>

#include "common/base/parse.h"

namespace dl::pool {
namespace {

Result<SocketAddress> look_up(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (rc != 0) {
    const bool may_pass = rc == EAI_AGAIN || rc == EAI_SYSTEM || rc == EAI_MEMORY;
    return Error{may_pass ? Errc::kIo : Errc::kInvalid,
                 "address '" + printable(host + ":" + port) + "' of a pool: " + ::gai_strerror(rc)};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(list, &::freeaddrinfo);
  SocketAddress address;
  address.size = found->ai_addrlen;
  std::memcpy(&address.address, found->ai_addr, found->ai_addrlen);
  return address;
}

// Host and port of HOST:PORT.
Result<std::pair<std::string, std::string>> parts(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? std::string() : address.substr(colon + 1);
  if (colon == std::string::npos || colon == 0 || !parse_int(port, 1, 65535))
    return Error{Errc::kInvalid,
                 "address '" + printable(address) +
                     "' of a pool has no host or no port; allowed: HOST:PORT, with PORT from 1 to 65535"};
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return std::make_pair(std::move(host), port);
}

}  // namespace

std::string endpoint(const std::string& host, int port) {
  const bool bare_v6 = host.find(':') != std::string::npos && host.front() != '[';
  return (bare_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<std::string> numeric_endpoint(const std::string& address) {
  DL_TRY_ASSIGN(const auto both, parts(address));
  DL_TRY_ASSIGN(const SocketAddress found, look_up(both.first, both.second, 0));
  return endpoint(host_of(found), port_of(found));
}

Result<SocketAddress> socket_address(const std::string& endpoint) {
  DL_TRY_ASSIGN(const auto both, parts(endpoint));
  return look_up(both.first, both.second, AI_NUMERICHOST);
}

Result<SocketAddress> listen_address(const std::string& host, int port) {
  return look_up(host, std::to_string(port), AI_NUMERICHOST | AI_PASSIVE);
}

std::string host_of(const SocketAddress& address) {
  char host[NI_MAXHOST] = "";
  if (::getnameinfo(address.get(), address.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

int port_of(const SocketAddress& address) {
  return ntohs(address.address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.address)->sin_port);
}

}  // namespace dl::pool
