// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/nccl_ras.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "launcher/protocol/connect_by.h"

namespace dl::agent {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMaxStatus = 256 << 10;

bool ready(int fd, short events, Clock::time_point end) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, milliseconds_left(end)) == 1;
}

UniqueFd connected(const std::string& host, const std::string& port, Clock::time_point end) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) return UniqueFd();
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> freed(list, &::freeaddrinfo);
  UniqueFd fd;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next)
    if (connect_by(end, *at, &fd) == 0) break;
  return fd;
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

// Returns the line that answers a command, or nothing if it does not come in time.
std::optional<std::string> answer(int fd, const std::string& command, Clock::time_point end, std::string* unread) {
  const std::string line = command + "\n";
  if (::send(fd, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) return std::nullopt;
  while (unread->find('\n') == std::string::npos)
    if (!read_some(fd, end, unread)) return std::nullopt;
  const size_t newline = unread->find('\n');
  std::string found = unread->substr(0, newline);
  unread->erase(0, newline + 1);
  return found;
}

}  // namespace

std::string nccl_ras_address(const std::string& environ) {
  for (const std::string& item : split(environ, '\0'))
    if (item.rfind("NCCL_RAS_ADDR=", 0) == 0) return item.substr(14);
  return "localhost:28028";
}

std::string nccl_status(const std::string& address, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const UniqueFd fd = connected(host, address.substr(colon + 1), end);
  if (!fd) return "";
  std::string text;
  const auto hello = answer(fd.get(), "CLIENT PROTOCOL 2", end, &text);
  if (!hello || hello->rfind("SERVER PROTOCOL ", 0) != 0) return "";
  // After this time NCCL reports processes of the job that have not answered it.
  const auto patience = std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(limit).count() - 2);
  if (!answer(fd.get(), "TIMEOUT " + std::to_string(patience), end, &text)) return "";
  const std::string status = "VERBOSE STATUS\n";
  if (::send(fd.get(), status.data(), status.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(status.size())) return "";
  while (read_some(fd.get(), end, &text)) {
  }
  return text;
}

}  // namespace dl::agent
