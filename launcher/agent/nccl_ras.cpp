// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/nccl_ras.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "launcher/agent/socket_owner.h"
#include "launcher/protocol/connect_by.h"

namespace dl::agent {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMaxStatus = 256 << 10;

// How often, and with how many further connections each time, a process is looked for that answers. With so many, one
// of eight processes that alone answers is missed once in 5000 times.
constexpr std::chrono::milliseconds kPause{100};
constexpr size_t kFurther = 4;
constexpr size_t kMostTries = 64;

bool ready(int fd, short events, Clock::time_point end) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, protocol::milliseconds_left(end)) == 1;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) list = nullptr;
  return {list, &::freeaddrinfo};
}

UniqueFd connected(const addrinfo* list, Clock::time_point end) {
  UniqueFd fd;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next)
    if (protocol::connect_by(end, *at, &fd) == 0) break;
  return fd;
}

bool send_line(int fd, const std::string& command) {
  const std::string line = command + "\n";
  return ::send(fd, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
}

// Appends the next bytes to *text. False at the end of the connection, and when the time is over.
bool read_some(int fd, Clock::time_point end, std::string* text) {
  char buffer[8192];
  if (text->size() >= kMaxStatus || !ready(fd, POLLIN, end)) return false;
  const ssize_t n = ::recv(fd, buffer, std::min(sizeof buffer, kMaxStatus - text->size()), 0);
  if (n <= 0) return false;
  text->append(buffer, static_cast<size_t>(n));
  return true;
}

// Takes the first line from *unread, or nothing if it has not come in time.
std::optional<std::string> next_line(int fd, Clock::time_point end, std::string* unread) {
  while (unread->find('\n') == std::string::npos)
    if (!read_some(fd, end, unread)) return std::nullopt;
  const size_t newline = unread->find('\n');
  std::string found = unread->substr(0, newline);
  unread->erase(0, newline + 1);
  return found;
}

struct Talk {
  UniqueFd fd;
  std::string unread;
};

// Waits until one of them has something to read or has been closed.
std::vector<size_t> await_any(const std::vector<Talk>& talks, Clock::time_point end) {
  std::vector<pollfd> entries;
  entries.reserve(talks.size());
  for (const Talk& talk : talks) entries.push_back({talk.fd.get(), POLLIN, 0});
  std::vector<size_t> found;
  if (::poll(entries.data(), entries.size(), protocol::milliseconds_left(end)) <= 0) return found;
  for (size_t i = entries.size(); i-- > 0;)
    if (entries[i].revents != 0) found.push_back(i);  // the last one first, so that they can be erased in this order
  return found;
}

// A connection to a process that has said that it is NCCL's status service.
std::optional<Talk> talk_to_any(const addrinfo* list, Clock::time_point end) {
  std::vector<Talk> talks;
  size_t tries = 0;
  while (protocol::milliseconds_left(end) > 0) {
    for (size_t more = tries == 0 ? 1 : kFurther; more > 0 && tries < kMostTries; --more, ++tries) {
      Talk talk;
      talk.fd = connected(list, end);
      if (!talk.fd) return std::nullopt;
      if (send_line(talk.fd.get(), "CLIENT PROTOCOL 2")) talks.push_back(std::move(talk));
    }
    if (talks.empty() && tries >= kMostTries) break;
    const auto pause = tries < kMostTries ? std::min(end, Clock::now() + kPause) : end;
    for (const size_t i : await_any(talks, pause)) {
      const auto hello = next_line(talks[i].fd.get(), pause, &talks[i].unread);
      if (hello)
        return hello->rfind("SERVER PROTOCOL ", 0) == 0 ? std::optional<Talk>(std::move(talks[i])) : std::nullopt;
      talks.erase(talks.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return std::nullopt;
}

int port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The process on this node at the other end; 0: unknown.
pid_t other_end(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t size = sizeof here;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) != 0) return 0;
  size = sizeof there;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size) != 0) return 0;
  char text[NI_MAXHOST];
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&there), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return 0;
  return socket_process({text, port_of(there), port_of(here)});
}

}  // namespace

std::string nccl_ras_address(const std::string& environ) {
  for (const std::string& item : split(environ, '\0'))
    if (item.rfind("NCCL_RAS_ADDR=", 0) == 0) return item.substr(14);
  return "localhost:28028";
}

NcclStatus nccl_status(const std::string& address, std::chrono::milliseconds limit) {
  const Clock::time_point begin = Clock::now(), end = begin + limit;
  NcclStatus status;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return status;
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const Addresses list = addresses_of(host, address.substr(colon + 1));
  std::optional<Talk> talk = talk_to_any(list.get(), begin + limit / 2);
  if (!talk) return status;
  const int fd = talk->fd.get();
  status.from = other_end(fd);
  // After this time NCCL reports processes of the job that have not answered it.
  const int patience = std::max(
      1, std::min<int>(static_cast<int>(limit.count() / 1000) - 2, protocol::milliseconds_left(end) / 1000 - 1));
  if (!send_line(fd, "TIMEOUT " + std::to_string(patience)) || !next_line(fd, end, &talk->unread)) return status;
  if (!send_line(fd, "VERBOSE STATUS")) return status;
  status.text = std::move(talk->unread);
  while (read_some(fd, end, &status.text)) {
  }
  return status;
}

}  // namespace dl::agent
