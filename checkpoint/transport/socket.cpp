// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/transport/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

bool to_address(const std::string& text, int port, Address* out, socklen_t* length) {
  std::memset(out, 0, sizeof *out);
  if (inet_pton(AF_INET, text.c_str(), &out->v4.sin_addr) == 1) {
    out->v4.sin_family = AF_INET;
    out->v4.sin_port = htons(static_cast<uint16_t>(port));
    *length = sizeof out->v4;
    return true;
  }
  if (inet_pton(AF_INET6, text.c_str(), &out->v6.sin6_addr) == 1) {
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(static_cast<uint16_t>(port));
    *length = sizeof out->v6;
    return true;
  }
  return false;
}

// The address as text; "" for loopback, link-local and other families.
std::string to_text(const sockaddr* address) {
  if (!address) return std::string();
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    if (ntohl(v4.sin_addr.s_addr) >> 24 == 127) return std::string();
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof v6);
    if (IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return std::string();
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return text;
}

struct Interface {
  std::string name, address;
  bool v4;
};

// The interfaces that are up and have an address that others can reach; IPv4 first.
std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) < 0) return found;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK)) continue;
    const std::string address = to_text(at->ifa_addr);
    if (!address.empty()) found.push_back(Interface{at->ifa_name, address, at->ifa_addr->sa_family == AF_INET});
  }
  freeifaddrs(list);
  std::stable_sort(found.begin(), found.end(), [](const Interface& a, const Interface& b) { return a.v4 > b.v4; });
  return found;
}

Error failed(const std::string& doing) {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETIMEDOUT)
    return Error{Errc::kTimeout, doing + ": nothing was sent or received before the timeout", errno};
  Error error = errno_error(doing, errno);
  error.code = Errc::kIo;
  return error;
}

}  // namespace

std::string format_endpoint(const Endpoint& endpoint) {
  return endpoint.address + " " + std::to_string(endpoint.port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const size_t blank = text.find(' ');
  const auto port = parse_int(blank == std::string_view::npos ? std::string_view() : text.substr(blank + 1), 1, 65535);
  Endpoint endpoint{std::string(text.substr(0, blank)), port ? static_cast<int>(*port) : 0};
  Address address;
  socklen_t length = 0;
  if (!port || !to_address(endpoint.address, endpoint.port, &address, &length))
    return Error{Errc::kInvalid, "'" + printable(text) + "' is not an address and a port"};
  return endpoint;
}

Result<std::string> own_address(const std::string& wanted) {
  const std::vector<Interface> all = interfaces();
  if (!wanted.empty()) {
    for (const Interface& one : all)
      if (one.name == wanted || one.address == wanted) return one.address;
    return Error{Errc::kNotFound, "no network interface '" + printable(wanted) + "' is up"};
  }
  char host[256] = "";
  addrinfo* list = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  if (gethostname(host, sizeof host - 1) == 0 && getaddrinfo(host, nullptr, &hints, &list) == 0) {
    std::string found;
    for (const addrinfo* at = list; at && found.empty(); at = at->ai_next) {
      const std::string address = to_text(at->ai_addr);
      for (const Interface& one : all)
        if (one.address == address) found = address;
    }
    freeaddrinfo(list);
    if (!found.empty()) return found;
  }
  if (all.empty()) return Error{Errc::kNotFound, "no network interface but loopback is up"};
  return all[0].address;
}

Result<UniqueFd> listen_on(const std::string& text, Endpoint* endpoint) {
  Address address;
  socklen_t length = 0;
  if (!to_address(text, 0, &address, &length))
    return Error{Errc::kInvalid, "'" + printable(text) + "' is not an address; allowed: an IPv4 or IPv6 address"};
  UniqueFd fd(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed("make a socket");
  if (::bind(fd.get(), &address.any, length) < 0) return failed("bind to " + text);
  if (::listen(fd.get(), 1024) < 0) return failed("listen on " + text);
  length = sizeof address;
  if (::getsockname(fd.get(), &address.any, &length) < 0) return failed("ask for the port of " + text);
  endpoint->address = text;
  endpoint->port = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
  return fd;
}

Result<UniqueFd> connect_to(const Endpoint& endpoint, double timeout_s) {
  const std::string doing = "connect to " + format_endpoint(endpoint);
  Address address;
  socklen_t length = 0;
  if (!to_address(endpoint.address, endpoint.port, &address, &length)) return Error{Errc::kInvalid, doing};
  UniqueFd fd(::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed("make a socket");
  const int milliseconds = static_cast<int>(std::clamp(timeout_s, 0.001, 1e6) * 1000);
  if (::connect(fd.get(), &address.any, length) < 0) {
    if (errno != EINPROGRESS) return failed(doing);
    pollfd ready{fd.get(), POLLOUT, 0};
    int rc = 0;
    do {
      rc = ::poll(&ready, 1, milliseconds);
    } while (rc < 0 && errno == EINTR);
    if (rc == 0) errno = ETIMEDOUT;
    if (rc <= 0) return failed(doing);
    socklen_t size = sizeof errno;
    int error = 0;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) < 0) return failed(doing);
    errno = error;
    if (error != 0) return failed(doing);
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  const int on = 1;
  timeval limit{milliseconds / 1000, (milliseconds % 1000) * 1000};
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) < 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) < 0)
    return failed(doing);
  return fd;
}

Status send_all(int fd, const void* data, size_t size) {
  const auto* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::send(fd, from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("send");
    from += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

Status receive_all(int fd, void* data, size_t size) {
  auto* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::recv(fd, to, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("receive");
    if (n == 0) return Error{Errc::kIo, "receive: the other end closed the connection", ECONNRESET};
    to += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

}  // namespace dl::ckpt
