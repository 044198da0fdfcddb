// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace dl::agent {
namespace {

Result<UniqueFd> bind_any(int family, const sockaddr* address, socklen_t size) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error("hold a free TCP port for a learner", errno);
  int one = 1, zero = 0;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0)
    return errno_error("hold a free TCP port for a learner", errno);
  if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
  if (::bind(fd.get(), address, size) != 0) return errno_error("hold a free TCP port for a learner", errno);
  return fd;
}

}  // namespace

Status HeldPort::hold() {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  auto held = bind_any(AF_INET6, reinterpret_cast<const sockaddr*>(&six), sizeof six);
  if (!held) {  // this machine has no IPv6
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(INADDR_ANY);
    held = bind_any(AF_INET, reinterpret_cast<const sockaddr*>(&four), sizeof four);
  }
  if (!held) return std::move(held).error();
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(held->get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return errno_error("hold a free TCP port for a learner", errno);
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                            : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  fd_ = std::move(*held);
  return {};
}

}  // namespace dl::agent
