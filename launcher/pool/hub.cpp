// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/hub.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/clock.h"
#include "common/base/little_endian.h"
#include "launcher/pool/secret.h"

namespace dl::pool {
namespace {

constexpr uint64_t kWakeTag = 0, kListenTag = ~uint64_t{0};
constexpr int64_t kListenPauseMs = 100;  // when there are too few descriptors, or too little memory
constexpr size_t kReadAtOnce = 256 << 10;
constexpr size_t kKept = 1 << 20;                 // of an empty buffer
constexpr size_t kMostUnread = size_t{64} << 20;  // a client that does not read is not read from either
constexpr size_t kMostUnsent = size_t{3} << 30;   // then the connection is given up
// A host that is gone is noticed after about 8 seconds, also by whoever has nothing to send and waits for an answer.
constexpr int kIdleSeconds = 2, kProbeSeconds = 2, kProbes = 3;
// A member's link to the directory breaks when what it has said is not acknowledged for so long: kSilentMs
// (directory.h) counts on it. Elsewhere such a limit would break connections to peers that live and are busy, since it
// counts the time for which they read nothing, too.
constexpr unsigned kUnacknowledgedMs = 5000;

void prepare(int fd, bool to_directory) {
  const auto set = [fd](int level, int option, auto value) { ::setsockopt(fd, level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  if (to_directory) set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMs);
}

// Many connections that were busy once shall not keep their memory.
void drop_front(std::string* bytes, size_t count) {
  bytes->erase(0, count);
  if (bytes->empty() && bytes->capacity() > kKept) *bytes = {};
}

Result<Nonce> make_nonce() {
  Nonce nonce{};
  DL_TRY_ASSIGN(const std::string bytes, random_bytes(nonce.size()));
  bytes.copy(nonce.data(), nonce.size());
  return nonce;
}

}  // namespace

Status Hub::open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wake_) return errno_error("the connections of a pool", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeTag;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0)
    return errno_error("the connections of a pool", errno);
  return {};
}

Status Hub::listen(const std::string& host, int port) {
  DL_TRY_ASSIGN(const SocketAddress at, listen_address(host, port));
  const std::string what = "listen at " + endpoint(host, port) + " for a pool";
  listener_.reset(::socket(at.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener_) return errno_error(what, errno);
  const int on = 1;
  ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener_.get(), at.get(), at.size) != 0 || ::listen(listener_.get(), 1024) != 0)
    return errno_error(what, errno);
  SocketAddress bound;
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound.address), &bound.size) != 0)
    return errno_error(what, errno);
  port_ = port_of(bound);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kListenTag;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) return errno_error(what, errno);
  return {};
}

Result<Link> Hub::connect(const std::string& address, Who who, MemberId member) {
  DL_TRY_ASSIGN(const SocketAddress to, socket_address(address));
  DL_TRY_ASSIGN(const Nonce nonce, make_nonce());
  const Link link = next_++;
  Connection& connection = connections_[link];
  connection.introduction = {who, member, nonce};
  connection.deadline_ms = now_ms() + kProofMs;
  connection.fd.reset(::socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (connection.fd) prepare(connection.fd.get(), who == Who::kJoiner);
  if (!connection.fd || (::connect(connection.fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS)) {
    connection.deadline_ms = 0;  // the next wait() tells of it
    return link;
  }
  epoll_event event{};
  event.events = connection.interest = EPOLLOUT;
  event.data.u64 = link;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.fd.get(), &event) != 0) connection.deadline_ms = 0;
  return link;
}

void Hub::send(Link link, const Message& message) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.state != State::kOpen) return encode(message, &connection.until_open);
  if (connection.out.empty()) dirty_.push_back(link);
  encode(message, &connection.out);
}

void Hub::close(Link link) {
  connections_.erase(link);
}

void Hub::lose(Link link) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  // A connection that never proved itself was not announced, so its end is not either.
  const bool known = found->second.state == State::kOpen || !found->second.accepted;
  connections_.erase(found);
  if (known) events_.push_back({Event::What::kClosed, link, {}});
}

void Hub::wake() {
  const uint64_t one = 1;
  const int before = errno;                                        // of what a signal handler has interrupted
  if (::write(wake_.get(), &one, sizeof one) < 0) errno = before;  // a full counter wakes, too
}

Who Hub::who(Link link) const {
  const auto found = connections_.find(link);
  return found == connections_.end() ? Who::kClient : found->second.introduction.who;
}

MemberId Hub::member(Link link) const {
  const auto found = connections_.find(link);
  return found == connections_.end() ? 0 : found->second.introduction.member;
}

std::string Hub::local_host(Link link) const {
  const auto found = connections_.find(link);
  SocketAddress address;
  if (found == connections_.end() ||
      ::getsockname(found->second.fd.get(), reinterpret_cast<sockaddr*>(&address.address), &address.size) != 0)
    return {};
  return host_of(address);
}

size_t Hub::unproved() const {
  return static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(), [](const auto& c) {
    return c.second.accepted && c.second.state != State::kOpen;
  }));
}

void Hub::accept_all() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      // Without a pause epoll would tell of the same connection again and again.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause_listening();
      return;
    }
    if (unproved() >= kMostUnproved) {
      const auto oldest = std::find_if(connections_.begin(), connections_.end(), [](const auto& c) {
        return c.second.accepted && c.second.state != State::kOpen;
      });
      connections_.erase(oldest);
    }
    const auto nonce = make_nonce();
    if (!nonce) continue;  // a challenge that can be foreseen proves nothing
    prepare(fd.get(), false);
    const Link link = next_++;
    Connection& connection = connections_[link];
    connection.fd = std::move(fd);
    connection.accepted = true;
    connection.state = State::kAwaitsIntroduction;
    connection.acceptor = *nonce;
    connection.deadline_ms = now_ms() + kProofMs;
    connection.out = challenge(connection.acceptor);
    epoll_event event{};
    event.events = connection.interest = EPOLLIN;
    event.data.u64 = link;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.fd.get(), &event) != 0 || !flush(link, &connection))
      lose(link);
  }
}

void Hub::pause_listening() {
  epoll_event event{};
  event.data.u64 = kListenTag;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event) == 0) listen_ms_ = now_ms() + kListenPauseMs;
}

void Hub::listen_again() {
  if (listen_ms_ < 0 || now_ms() < listen_ms_) return;
  listen_ms_ = -1;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kListenTag;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

void Hub::watch(Link link, Connection* connection) {
  uint32_t interest = connection->out.empty() ? 0 : static_cast<uint32_t>(EPOLLOUT);
  const bool client = connection->accepted && connection->introduction.who == Who::kClient;
  if (!client || connection->out.size() - connection->sent < kMostUnread) interest |= EPOLLIN;
  if (interest == connection->interest) return;
  epoll_event event{};
  event.events = connection->interest = interest;
  event.data.u64 = link;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection->fd.get(), &event);
}

// False: the connection has ended.
bool Hub::flush(Link link, Connection* connection) {
  std::string& out = connection->out;
  size_t& sent = connection->sent;
  while (sent < out.size()) {
    const ssize_t n = ::send(connection->fd.get(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return false;
    sent += static_cast<size_t>(n);
  }
  if (sent > out.size() / 2) {  // not after each part, for which the whole rest would be moved
    drop_front(&out, sent);
    sent = 0;
  }
  if (out.size() - sent > kMostUnsent) return false;
  watch(link, connection);
  return true;
}

void Hub::opened(Link link, Connection* connection) {
  connection->state = State::kOpen;
  connection->out += connection->until_open;
  connection->until_open = {};
  events_.push_back({Event::What::kOpened, link, {}});
}

// The bytes of one step of the proof. False: they are wrong.
bool Hub::step(Link link, Connection* connection, std::string_view bytes) {
  if (connection->state == State::kAwaitsChallenge) {
    const auto nonce = read_challenge(bytes);
    if (!nonce) return false;
    connection->acceptor = *nonce;
    connection->out += introduce(secret_, *nonce, connection->introduction);
    connection->state = State::kAwaitsConfirmation;
    return flush(link, connection);
  }
  if (connection->state == State::kAwaitsConfirmation) {
    if (!is_confirmed(secret_, connection->acceptor, connection->introduction, bytes)) return false;
    opened(link, connection);
    return flush(link, connection);
  }
  const auto introduction = read_introduction(secret_, connection->acceptor, bytes);
  if (!introduction) return false;
  connection->introduction = *introduction;
  connection->out += confirm(secret_, connection->acceptor, *introduction);
  opened(link, connection);
  return flush(link, connection);
}

// True if there was a whole message; false if there is none yet, or the connection is closed.
bool Hub::take_message(Link link, Connection* connection) {
  const std::string_view rest = std::string_view(connection->in).substr(connection->taken);
  if (rest.size() < 4) return false;
  const auto size = static_cast<size_t>(get_little(rest, 0, 4));
  const bool member = connection->introduction.who != Who::kClient || !connection->accepted;
  if (size < kHeadBytes || size > kHeadBytes + kMostKey + (member ? kMostState : kMostBytes)) {
    lose(link);
    return false;
  }
  if (rest.size() - 4 < size) return false;
  auto message = decode(rest.substr(4, size));
  if (!message) {
    lose(link);
    return false;
  }
  connection->taken += 4 + size;
  events_.push_back({Event::What::kMessage, link, std::move(*message)});
  return true;
}

// False: the connection is closed.
bool Hub::take(Link link, Connection* connection) {
  while (connection->state != State::kOpen) {
    const size_t size = connection->state == State::kAwaitsChallenge      ? kChallengeBytes
                        : connection->state == State::kAwaitsConfirmation ? kConfirmationBytes
                                                                          : kIntroductionBytes;
    if (connection->in.size() - connection->taken < size) break;
    const std::string bytes = connection->in.substr(connection->taken, size);
    connection->taken += size;
    if (step(link, connection, bytes)) continue;
    lose(link);
    return false;
  }
  while (connection->state == State::kOpen && take_message(link, connection)) {
  }
  if (!is_open(link)) return false;
  drop_front(&connection->in, connection->taken);
  connection->taken = 0;
  return true;
}

bool Hub::receive(Link link, Connection* connection) {
  // Whoever has not proved himself cannot have us keep more than that needs.
  const size_t most = connection->state == State::kOpen ? kReadAtOnce : 512;
  const size_t before = connection->in.size();
  connection->in.resize(before + most);
  const ssize_t n = ::recv(connection->fd.get(), connection->in.data() + before, most, 0);
  const int failure = errno;
  connection->in.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (n > 0) return take(link, connection);
  if (n < 0 && (failure == EAGAIN || failure == EINTR)) return true;
  lose(link);
  return false;
}

void Hub::ready(Link link, uint32_t what) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.state == State::kConnecting) {
    int failure = 0;
    socklen_t size = sizeof failure;
    if (::getsockopt(connection.fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0)
      return lose(link);
    connection.state = State::kAwaitsChallenge;
    watch(link, &connection);
    return;
  }
  if ((what & EPOLLOUT) != 0 && !flush(link, &connection)) return lose(link);
  if ((what & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive(link, &connection);
}

void Hub::close_late() {
  const int64_t now = now_ms();
  std::vector<Link> late;
  for (const auto& [link, connection] : connections_)
    if (connection.state != State::kOpen && connection.deadline_ms <= now) late.push_back(link);
  for (const Link link : late) lose(link);
}

std::vector<Event> Hub::wait(int64_t limit_ms) {
  for (const Link link : std::exchange(dirty_, {})) {
    const auto found = connections_.find(link);
    if (found != connections_.end() && !flush(link, &found->second)) lose(link);
  }
  close_late();
  bool proving = false;
  for (const auto& [link, connection] : connections_) proving = proving || connection.state != State::kOpen;
  int64_t limit = limit_ms < 0 ? 1000 : std::min<int64_t>(limit_ms, 1000);
  if (proving || listen_ms_ >= 0) limit = std::min<int64_t>(limit, 100);
  if (!events_.empty()) limit = 0;
  epoll_event ready_now[64];
  const int64_t until = limit_ms < 0 ? -1 : monotonic_ms() + limit_ms;
  for (;;) {
    const int n = ::epoll_wait(epoll_.get(), ready_now, 64, static_cast<int>(limit));
    bool woken = false;
    for (int i = 0; i < n; ++i) {
      const uint64_t tag = ready_now[i].data.u64;
      if (tag == kWakeTag) {
        uint64_t count = 0;
        woken = ::read(wake_.get(), &count, sizeof count) > 0;
      } else if (tag == kListenTag) {
        accept_all();
      } else {
        ready(tag, ready_now[i].events);
      }
    }
    close_late();
    listen_again();
    if (!events_.empty() || woken || (until >= 0 && monotonic_ms() >= until)) return std::exchange(events_, {});
    limit = until < 0 ? 100 : std::clamp<int64_t>(until - monotonic_ms(), 0, 100);
  }
}

void Hub::shut() {
  connections_.clear();
  listener_.reset();
  listen_ms_ = -1;
}

void Hub::drain(int64_t limit_ms) {
  const int64_t until = monotonic_ms() + limit_ms;
  for (;;) {
    bool left = false;
    std::vector<Link> links;
    for (const auto& [link, connection] : connections_)
      if (connection.state == State::kOpen) links.push_back(link);
    for (const Link link : links) {
      const auto found = connections_.find(link);
      if (!flush(link, &found->second))
        connections_.erase(found);
      else
        left = left || !found->second.out.empty();
    }
    if (!left || monotonic_ms() >= until) return;
    ::usleep(1000);
  }
}

}  // namespace dl::pool
