// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/connect_by.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace dl::protocol {
namespace {

// If data is not acknowledged for so long, dlrun's node or the network to it is gone; the agent's pings make sure that
// there is always data to acknowledge. The time is longer than dlrun's own (control_server.cpp), so that dlrun can
// report which node was lost; but not much longer, since dlrun waits for it before it starts the learner elsewhere
// (two_ways.cpp).
constexpr unsigned kUserTimeoutMs = 2500;

}  // namespace

int milliseconds_left(std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

int connect_by(std::chrono::steady_clock::time_point deadline, const addrinfo& address, UniqueFd* out) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd wait{fd.get(), POLLOUT, 0};
    if (::poll(&wait, 1, milliseconds_left(deadline)) <= 0) return ETIMEDOUT;
    int failure = 0;
    socklen_t size = sizeof failure;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) return failure;
  }
  *out = std::move(fd);
  return 0;
}

void prepare_socket(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
}

std::string address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST];
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  return text;
}

}  // namespace dl::protocol
