// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/connect_by.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace dl::agent {

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

}  // namespace dl::agent
