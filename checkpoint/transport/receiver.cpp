// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/transport/receiver.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace dl::ckpt {
namespace {

constexpr std::chrono::seconds kProofTime{10};
constexpr size_t kMaxStrangers = 256;             // most connections that have not proved themselves yet
constexpr int kTick_ms = 500;                     // how often slow strangers are checked
constexpr size_t kReadsAtOnce = size_t{8} << 20;  // bytes read from one connection before the others get their turn

}  // namespace

Receiver::Receiver(UniqueFd listener, std::string secret, int rank, int size, Inbox* inbox)
    : listener_(std::move(listener)),
      secret_(std::move(secret)),
      rank_(rank),
      size_(size),
      inbox_(inbox),
      pool_(std::make_shared<BufferPool>()),
      of_rank_(static_cast<size_t>(size), nullptr),
      pid_(::getpid()) {}

Status Receiver::start() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return errno_error("make an eventfd", errno);
  DL_TRY_ASSIGN(thread_, QuietThread::start([this] { run(); }));
  return {};
}

Receiver::~Receiver() {
  if (!thread_.running()) return;
  if (pid_ != ::getpid()) {  // a forked child does not have this thread
    thread_.forget();
    return;
  }
  stop_ = true;
  wake();
  thread_.join();
}

void Receiver::wake() {
  const uint64_t one = 1;
  // This can only fail if the counter is full, and then the thread will wake up anyway.
  if (::write(wake_.get(), &one, sizeof one) < 0) return;
}

void Receiver::run() {
  std::vector<pollfd> polled;
  while (!stop_) {
    polled.clear();
    polled.push_back(pollfd{wake_.get(), POLLIN, 0});
    const auto strangers = static_cast<size_t>(
        std::count_if(connections_.begin(), connections_.end(), [](const auto& c) { return c->from < 0; }));
    const bool accepting = accepting_ && strangers < kMaxStrangers;
    polled.push_back(pollfd{accepting ? listener_.get() : -1, POLLIN, 0});
    for (const auto& connection : connections_) {
      const bool room = connection->from < 0 || inbox_->has_room(connection->from);
      polled.push_back(pollfd{room ? connection->fd.get() : -1, POLLIN, 0});
    }
    const bool tick = strangers > 0 || !accepting_;
    if (::poll(polled.data(), polled.size(), tick ? kTick_ms : -1) < 0 && errno != EINTR) return;
    accepting_ = true;
    if (polled[0].revents != 0) {
      uint64_t count = 0;
      if (::read(wake_.get(), &count, sizeof count) < 0) count = 0;  // another wake() follows
    }
    const auto now = Clock::now();
    for (size_t i = connections_.size(); i-- > 0;) {
      Connection* connection = connections_[i].get();
      const bool ready = polled[i + 2].revents != 0;
      const bool slow = connection->from < 0 && now >= connection->prove_until;
      try {
        if ((ready && !read(connection)) || slow) drop(i);
      } catch (const std::bad_alloc&) {
        drop(i);  // no memory for its message; the thread that waits for it learns that the connection has ended
      }
    }
    if (polled[1].revents != 0) accept_all();
  }
}

void Receiver::accept_all() {
  for (int n = 0; n < 64; ++n) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      // Without descriptors or memory, new connections wait, and accepting stops until the next tick. After an error
      // that cannot pass, the listener is closed.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) accepting_ = false;
      if (errno == EINVAL || errno == EBADF) listener_.reset();
      return;
    }
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto connection = std::make_unique<Connection>();
    connection->nonce = wire::make_nonce();
    connection->prove_until = Clock::now() + kProofTime;
    const auto challenge = wire::challenge(connection->nonce);
    // These few bytes always fit into the buffer of a new connection.
    if (::send(fd.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(challenge.size()))
      continue;
    connection->fd = std::move(fd);
    connections_.push_back(std::move(connection));
  }
}

bool Receiver::fill(Connection* connection, unsigned char* to, size_t size, bool* complete) {
  *complete = false;
  while (connection->have < size) {
    const ssize_t n = ::recv(connection->fd.get(), to + connection->have, size - connection->have, 0);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    connection->have += static_cast<size_t>(n);
  }
  connection->have = 0;
  *complete = true;
  return true;
}

bool Receiver::read(Connection* connection) {
  size_t total = 0;
  bool complete = true;
  while (complete && total < kReadsAtOnce) {
    if (connection->from < 0) {
      if (!fill(connection, connection->small.data(), wire::kAnswerBytes, &complete)) return false;
      if (complete && !prove(connection)) return false;
    } else if (!connection->in_body) {
      if (!fill(connection, connection->small.data(), wire::kHeadBytes, &complete)) return false;
      if (!complete) break;
      const auto head = wire::decode_head(connection->small.data());
      if (!head) {
        ++refused_;
        return false;
      }
      connection->head = *head;
      connection->body = Bytes(head->length, pool_);
      connection->in_body = true;
    } else {
      if (!fill(connection, connection->body.data(), connection->body.size(), &complete)) return false;
      if (!complete) break;
      total += connection->body.size() + 1;
      deliver(connection);
      if (!inbox_->has_room(connection->from)) break;
    }
  }
  return true;
}

bool Receiver::prove(Connection* connection) {
  const auto answer = wire::read_answer(secret_, connection->nonce, connection->small.data());
  if (!answer || answer->receiver != static_cast<uint32_t>(rank_) || answer->sender >= static_cast<uint32_t>(size_))
    return false;
  const Digest confirmation = wire::confirmation(secret_, connection->nonce, *answer);
  if (::send(connection->fd.get(), confirmation.data(), confirmation.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(confirmation.size()))
    return false;
  connection->from = static_cast<int>(answer->sender);
  of_rank_[answer->sender] = connection;
  inbox_->set_gone(connection->from, false);
  return true;
}

void Receiver::deliver(Connection* connection) {
  inbox_->put(connection->head.channel,
              RankMessage{connection->from, connection->head.tag, std::move(connection->body)}, connection->head.hash);
  connection->body = Bytes();
  connection->in_body = false;
}

void Receiver::drop(size_t index) {
  const Connection* connection = connections_[index].get();
  if (connection->from < 0) {
    ++refused_;
  } else if (of_rank_[static_cast<size_t>(connection->from)] == connection) {
    of_rank_[static_cast<size_t>(connection->from)] = nullptr;
    inbox_->set_gone(connection->from, true);
  }
  connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace dl::ckpt
