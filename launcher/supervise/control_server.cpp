// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/control_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include "common/base/unique_fd.h"

namespace dl::supervise {

using namespace protocol;

namespace {

// If the other side's kernel acknowledges no data for so long, its node or the network to it is gone. Pings
// (agent_fleet.cpp) make sure that there is always data to acknowledge, so a lost node shows within 3 s. The kernel
// also acknowledges for a stopped or busy process.
constexpr unsigned kUserTimeoutMs = 2000;
constexpr uint64_t kLookEveryMs = 1000;  // for connections that have not identified themselves in time

struct WriteRequest {
  uv_write_t request{};
  std::string data;
};

}  // namespace

ControlServer::ControlServer(uv_loop_t* loop, std::string secret, Handlers handlers)
    : loop_(loop),
      secret_(std::move(secret)),
      handlers_(std::move(handlers)),
      beats_(loop, {[this](const HeardBeat& heard, const BeatPeer& from) { heard_beat(heard, from); },
                    [this](const BeatPeer& to) { beat_refused(to); }}) {}

ControlServer::~ControlServer() {
  close_all();
}

Status ControlServer::listen() {
  auto* listener = new uv_tcp_t{};
  int rc = uv_tcp_init(loop_, listener);
  if (rc != 0) {
    delete listener;
    return Error{Errc::kIo, std::string("open the control port: ") + uv_strerror(rc)};
  }
  listener_ = listener;
  listener_->data = this;
  sockaddr_storage address{};
  uv_ip6_addr("::", 0, reinterpret_cast<sockaddr_in6*>(&address));
  rc = uv_tcp_bind(listener_, reinterpret_cast<const sockaddr*>(&address), 0);
  if (rc != 0) {
    uv_ip4_addr("0.0.0.0", 0, reinterpret_cast<sockaddr_in*>(&address));
    rc = uv_tcp_bind(listener_, reinterpret_cast<const sockaddr*>(&address), 0);
  }
  // The kernel limits the backlog to net.core.somaxconn. Agents whose connection is refused try again.
  if (rc == 0) rc = uv_listen(reinterpret_cast<uv_stream_t*>(listener_), 65535, on_connection);
  int size = sizeof address;
  if (rc == 0) rc = uv_tcp_getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  if (rc != 0) return Error{Errc::kIo, std::string("open the control port: ") + uv_strerror(rc)};
  port_ = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                                              : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  ignore(beats_.open(), "sessions then have the one way");
  return {};
}

void ControlServer::on_connection(uv_stream_t* server, int status) {
  if (status != 0) return;
  auto* self = static_cast<ControlServer*>(server->data);
  auto* connection = new Connection;
  uv_tcp_init(self->loop_, &connection->handle);
  connection->handle.data = connection;
  connection->server = self;
  connection->id = self->next_id_++;
  self->connections_[connection->id] = connection;
  if (uv_accept(server, reinterpret_cast<uv_stream_t*>(&connection->handle)) != 0) {
    self->close(connection->id);
    return;
  }
  self->greet(connection);
  uv_tcp_nodelay(&connection->handle, 1);
  uv_os_fd_t fd = -1;
  if (uv_fileno(reinterpret_cast<uv_handle_t*>(&connection->handle), &fd) == 0)
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  uv_read_start(
      reinterpret_cast<uv_stream_t*>(&connection->handle),
      [](uv_handle_t* handle, size_t /*suggested*/, uv_buf_t* buffer) {
        auto* c = static_cast<Connection*>(handle->data);
        // A connection that is being closed gets no buffer: its data is not read any more.
        std::vector<char>* to = c->server != nullptr ? &c->server->buffer_ : nullptr;
        *buffer = to != nullptr ? uv_buf_init(to->data(), static_cast<unsigned>(to->size())) : uv_buf_init(nullptr, 0);
      },
      [](uv_stream_t* stream, ssize_t n, const uv_buf_t* buffer) {
        auto* c = static_cast<Connection*>(stream->data);
        if (c->server == nullptr || n == 0) return;
        if (n < 0) {
          c->server->drop(c, n == UV_EOF ? "connection closed" : uv_strerror(static_cast<int>(n)));
        } else {
          c->server->receive(c, buffer->base, static_cast<size_t>(n));
        }
      });
}

// Registers a connection that has not identified itself yet. Such connections are limited in number and in time.
void ControlServer::greet(Connection* connection) {
  sockaddr_storage address{};
  int size = sizeof address;
  char text[NI_MAXHOST] = "";
  if (uv_tcp_getpeername(&connection->handle, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(size), text, sizeof text, nullptr, 0,
                  NI_NUMERICHOST);
  for (const ConnectionId gone : strangers_.add(connection->id, text, awake_ms())) close(gone);
  if (patience_ == nullptr) {
    patience_ = new uv_timer_t{};
    uv_timer_init(loop_, patience_);
    patience_->data = this;
  }
  if (uv_is_active(reinterpret_cast<uv_handle_t*>(patience_)) == 0)
    uv_timer_start(
        patience_, [](uv_timer_t* timer) { static_cast<ControlServer*>(timer->data)->close_overdue(); }, kLookEveryMs,
        kLookEveryMs);
}

void ControlServer::close_overdue() {
  for (const ConnectionId id : strangers_.overdue(awake_ms())) close(id);
  if (strangers_.size() == 0) uv_timer_stop(patience_);
}

void ControlServer::receive(Connection* connection, const char* data, size_t size) {
  auto lines = connection->splitter.feed(data, size);
  if (!lines) {
    sessions_.erase(connection->id);  // after a resume, the same invalid data would come again
    return drop(connection, lines.error().text);
  }
  for (const std::string& line : *lines) {
    if (!handle_line(connection, line)) return;
    if (connection->server == nullptr) return;  // a handler closed it
  }
}

bool ControlServer::handle_line(Connection* connection, const std::string& line) {
  Result<ControlMessage> message = decode(line);
  if (connection->known) {
    if (!note_arrival(connection, message)) return false;
    // A message that this version does not know, perhaps of a newer one, is ignored.
    if (message) handlers_.on_message(connection->id, *message);
    return true;
  }
  if (const Resume* again = message ? std::get_if<Resume>(&*message) : nullptr) return resume(connection, *again);
  const Hello* hello = message ? std::get_if<Hello>(&*message) : nullptr;
  if (hello == nullptr || !same_secret(hello->secret, secret_)) {
    close(connection->id);  // a stranger gets no answer, and nobody is told of it
    return false;
  }
  connection->known = true;
  strangers_.remove(connection->id);
  connection->splitter.set_limit(kMaxLineBytes);
  handlers_.on_hello(connection->id, *hello);
  return true;
}

void ControlServer::drop(Connection* connection, const std::string& why) {
  ConnectionId id = connection->id;
  bool known = connection->known;
  if (auto session = sessions_.find(id); session != sessions_.end()) {
    const bool silent =
        why == uv_strerror(UV_ETIMEDOUT) || why == uv_strerror(UV_EHOSTUNREACH) || why == uv_strerror(UV_ENETUNREACH);
    session->second.lost(silent ? Tcp::kUnacknowledged : Tcp::kClosed, awake_ms());
    abandon(connection);
    return handlers_.on_broken(id, why);
  }
  close(id);
  if (known) handlers_.on_closed(id, why);
}

void ControlServer::send_line(ConnectionId id, const std::string& line) {
  if (auto session = sessions_.find(id); session != sessions_.end()) session->second.said().add(line);
  if (auto it = connections_.find(id); it != connections_.end()) write(it->second, line);
}

void ControlServer::write(Connection* connection, std::string data) {
  auto* write = new WriteRequest;
  write->data = std::move(data);
  write->request.data = write;
  uv_buf_t buffer = uv_buf_init(write->data.data(), static_cast<unsigned>(write->data.size()));
  int rc = uv_write(&write->request, reinterpret_cast<uv_stream_t*>(&connection->handle), &buffer, 1,
                    [](uv_write_t* request, int /*status*/) { delete static_cast<WriteRequest*>(request->data); });
  if (rc != 0) delete write;  // the connection is broken; its read callback reports that
}

void ControlServer::close(ConnectionId id) {
  sessions_.erase(id);
  strangers_.remove(id);
  auto it = connections_.find(id);
  if (it == connections_.end()) return;
  Connection* connection = it->second;
  connections_.erase(it);
  connection->server = nullptr;
  uv_read_stop(reinterpret_cast<uv_stream_t*>(&connection->handle));
  auto* shutdown = new uv_shutdown_t{};
  shutdown->data = connection;
  auto finish = [](Connection* c) {
    if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&c->handle)) != 0) return;
    uv_close(reinterpret_cast<uv_handle_t*>(&c->handle),
             [](uv_handle_t* handle) { delete static_cast<Connection*>(handle->data); });
  };
  // uv_shutdown first sends what is still to be written.
  int rc = uv_shutdown(shutdown, reinterpret_cast<uv_stream_t*>(&connection->handle),
                       [](uv_shutdown_t* request, int /*status*/) {
                         auto* c = static_cast<Connection*>(request->data);
                         delete request;
                         if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&c->handle)) != 0) return;
                         uv_close(reinterpret_cast<uv_handle_t*>(&c->handle),
                                  [](uv_handle_t* handle) { delete static_cast<Connection*>(handle->data); });
                       });
  if (rc != 0) {
    delete shutdown;
    finish(connection);
  }
}

void ControlServer::close_all() {
  while (!connections_.empty()) close(connections_.begin()->first);
  sessions_.clear();
  beats_.close();
  if (patience_ != nullptr)
    uv_close(reinterpret_cast<uv_handle_t*>(patience_),
             [](uv_handle_t* handle) { delete reinterpret_cast<uv_timer_t*>(handle); });
  patience_ = nullptr;
  if (listener_ == nullptr) return;
  uv_close(reinterpret_cast<uv_handle_t*>(listener_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_tcp_t*>(handle); });
  listener_ = nullptr;
}

Result<std::string> address_towards(const std::string& peer) {
  if (peer.empty()) return std::string("127.0.0.1");
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  // The port does not matter: connecting a datagram socket sends nothing, but makes the kernel choose the route, and
  // with it our address.
  if (int rc = ::getaddrinfo(peer.c_str(), "9", &hints, &list); rc != 0)
    return Error{Errc::kNotFound, "find the address of " + peer + ": " + ::gai_strerror(rc)};
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  int failure = ENETUNREACH;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    UniqueFd fd(::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST];
    if (fd && ::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0 &&
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      return std::string(text);
    failure = errno;
  }
  return errno_error("find the way to " + peer, failure);
}

}  // namespace dl::supervise
