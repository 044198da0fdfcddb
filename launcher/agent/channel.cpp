// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/channel.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "launcher/agent/connect_by.h"

namespace dl::agent {
namespace {

using Clock = std::chrono::steady_clock;

// The agent's pings keep data under way: when they have not been acknowledged for so long, dlrun's node or the way to
// it is gone, and the learner must not train on by itself. Longer than dlrun takes to see the same
// (control_server.cpp), so that it is dlrun that says which node was lost; not much longer, since dlrun waits for it
// before it starts the learner elsewhere (supervisor_nodes.cpp).
constexpr unsigned kUserTimeoutMs = 2500;

}  // namespace

Status Channel::connect(const std::string& host, int port, std::chrono::milliseconds limit) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); rc != 0)
    return Error{Errc::kInvalid, "address of dlrun '" + host + "': " + ::gai_strerror(rc)};
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  Clock::time_point deadline = Clock::now() + limit;
  for (useconds_t pause = 20000;; pause *= 2) {
    int failure = connect_by(deadline, *addresses, &fd_);
    if (failure == 0) {
      const int one = 1;
      ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
      return {};
    }
    if (milliseconds_left(deadline) <= static_cast<int>(pause / 1000))
      return errno_error("connect to dlrun at " + supervise::format_endpoint(host, port), failure);
    ::usleep(pause);
  }
}

std::string Channel::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST];
  if (::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  return text;
}

void Channel::send(const supervise::Message& message) {
  if (!fd_) return;
  out_ += supervise::encode(message);
  write_pending();
}

void Channel::write_pending() {
  while (fd_ && !out_.empty()) {
    ssize_t n = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      fd_.reset();
      return;
    }
    out_.erase(0, static_cast<size_t>(n));
  }
}

std::vector<supervise::Message> Channel::receive() {
  std::vector<supervise::Message> messages;
  char buffer[65536];
  while (fd_) {
    ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      fd_.reset();
      break;
    }
    auto lines = splitter_.feed(buffer, static_cast<size_t>(n));
    if (!lines) {
      fd_.reset();
      break;
    }
    for (const std::string& line : *lines) {
      // A message this version does not know is passed over: dlrun may be newer.
      if (auto message = supervise::decode(line)) messages.push_back(std::move(*message));
    }
  }
  return messages;
}

void Channel::close(std::chrono::milliseconds limit) {
  Clock::time_point deadline = Clock::now() + limit;
  bool shut = false;
  while (fd_ && milliseconds_left(deadline) > 0) {
    if (out_.empty() && !shut) {
      ::shutdown(fd_.get(), SHUT_WR);
      shut = true;
    }
    pollfd wait{fd_.get(), static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT)), 0};
    if (::poll(&wait, 1, milliseconds_left(deadline)) <= 0) break;
    if ((wait.revents & POLLOUT) != 0) write_pending();
    if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive();
  }
  fd_.reset();
}

}  // namespace dl::agent
