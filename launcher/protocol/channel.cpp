// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/channel.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/clock.h"
#include "launcher/protocol/connect_by.h"

namespace dl::protocol {
namespace {

constexpr int64_t kPingMs = 500;
// Data unacknowledged for longer than a ping takes: the connection may be dead.
constexpr int64_t kAnxiousAfterMs = 700;
constexpr size_t kAcknowledgeBytes = 16 << 10;  // dlrun keeps messages until they are acknowledged

}  // namespace

Status Channel::connect(const std::string& host, int port, std::chrono::milliseconds limit) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); rc != 0)
    return Error{Errc::kInvalid, "address of dlrun '" + host + "': " + ::gai_strerror(rc)};
  dlrun_.reset(found);
  Clock::time_point deadline = Clock::now() + limit;
  for (useconds_t pause = 20000;; pause *= 2) {
    int failure = connect_by(deadline, *dlrun_, &fd_);
    if (failure == 0) break;
    if (milliseconds_left(deadline) <= static_cast<int>(pause / 1000))
      return errno_error("connect to dlrun at " + format_endpoint(host, port), failure);
    ::usleep(pause);
  }
  prepare_socket(fd_.get());
  local_address_ = address_of(fd_.get());
  state_ = State::kOpen;
  nothing_open_ms_ = monotonic_ms();
  return {};
}

void Channel::greet(Hello hello) {
  hello.sessions = true;
  out_ += encode(hello);
  write_pending();
}

void Channel::send(const ControlMessage& message) {
  if (closed()) return;
  const std::string line = encode(message);
  if (!one_way_) said_.add(line);
  if (state_ != State::kOpen) return;  // sent when the connection is resumed
  out_ += line;
  write_pending();
}

void Channel::ping() {
  last_ping_ms_ = monotonic_ms();
  unacknowledged_bytes_ = 0;
  if (state_ != State::kOpen) return;
  out_ += encode(Ping{received_});
  write_pending();
}

void Channel::write_pending() {
  while (fd_ && !out_.empty()) {
    ssize_t n = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return lose(/*by_end=*/false);
    written_ms_ = monotonic_ms();
    out_.erase(0, static_cast<size_t>(n));
  }
}

void Channel::watch(pollfd* fds) const {
  const bool write = state_ == State::kConnecting || !out_.empty();
  fds[0] = {fd_.get(), static_cast<short>(state_ == State::kConnecting ? POLLOUT : POLLIN | (write ? POLLOUT : 0)), 0};
  fds[1] = {beats_.fd(), POLLIN, 0};
}

std::vector<ControlMessage> Channel::handle(const pollfd* fds) {
  if (fds[1].revents != 0 && beats_.read(monotonic_ms(), session_ ? session_->link : uint16_t{0}) &&
      state_ == State::kOpen)
    lose(/*by_end=*/false);
  if (!fd_ || fds[0].fd != fd_.get() || fds[0].revents == 0) return {};
  if (state_ == State::kConnecting) {
    connected_anew();
    return {};
  }
  if ((fds[0].revents & POLLOUT) != 0) write_pending();
  if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) return receive();
  return {};
}

std::vector<ControlMessage> Channel::receive() {
  std::vector<ControlMessage> messages;
  char buffer[65536];
  while (fd_) {
    ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      lose(/*by_end=*/n == 0);
      break;
    }
    auto lines = splitter_.feed(buffer, static_cast<size_t>(n));
    if (!lines) {
      give_up();
      break;
    }
    bool sound = true;
    for (const std::string& line : *lines) sound = sound && take(line, &messages);
    if (!sound) {
      give_up();
      break;
    }
  }
  if (unacknowledged_bytes_ >= kAcknowledgeBytes) ping();
  return messages;
}

// Handles a received line. False if the other side cannot be dlrun.
bool Channel::take(const std::string& line, std::vector<ControlMessage>* messages) {
  auto message = decode(line);
  if (state_ == State::kResuming) {
    const auto* answer = message ? std::get_if<Resumed>(&*message) : nullptr;
    return answer != nullptr && resumed(*answer);
  }
  if (const auto* pinged = message ? std::get_if<Ping>(&*message) : nullptr)
    return !session_ || said_.acknowledge(pinged->received);
  if (const auto* offer = message ? std::get_if<OpenSession>(&*message) : nullptr) {
    if (!session_ && !one_way_) open_session(*offer);
    return true;
  }
  if (!session_ && !one_way_) {
    one_way_ = true;
    said_ = SessionBuffer{};
  }
  ++received_;
  unacknowledged_bytes_ += line.size();
  // A message that this version does not know is ignored: dlrun may be newer.
  if (message) messages->push_back(*std::move(message));
  return true;
}

// Unacknowledged data makes both kernels notice within seconds that the other node is gone. An open connection may
// otherwise be silent for any time: dlrun's kernel acknowledges data even while dlrun is busy or stopped.
void Channel::look_at_acknowledgements(int64_t now_ms) {
  int open = 0;
  if (!out_.empty() || ::ioctl(fd_.get(), SIOCOUTQ, &open) != 0 || open > 0) return;
  acknowledged_ms_ = written_ms_;
  nothing_open_ms_ = now_ms;
}

bool Channel::anxious(int64_t now_ms) const {
  return state_ != State::kOpen || now_ms - nothing_open_ms_ > kAnxiousAfterMs;
}

void Channel::tick() {
  if (closed()) return;
  const int64_t now = monotonic_ms();
  if (state_ == State::kOpen) look_at_acknowledgements(now);
  beats_.tick(now, anxious(now));
  if (state_ != State::kOpen) tick_resume(now);
  if (now - last_ping_ms_ >= kPingMs) ping();
}

void Channel::close(std::chrono::milliseconds limit) {
  Clock::time_point deadline = Clock::now() + limit;
  bool shut = false;
  end_expected_ = true;
  while (!closed() && milliseconds_left(deadline) > 0) {
    if (state_ == State::kOpen && out_.empty() && !shut) {
      ::shutdown(fd_.get(), SHUT_WR);
      shut = true;
    }
    pollfd fds[kWatched];
    watch(fds);
    if (::poll(fds, kWatched, std::min(100, milliseconds_left(deadline))) < 0) break;
    handle(fds);
    if (state_ != State::kOpen) tick();
  }
  give_up();
}

}  // namespace dl::protocol
