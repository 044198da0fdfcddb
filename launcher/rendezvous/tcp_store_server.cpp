// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/tcp_store_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/more_descriptors.h"

namespace dl::rendezvous {
namespace {

// Limit of the replies that a client has not read yet. Beyond it, no more of its requests are served.
constexpr size_t kMaxUnsent = 1 << 20;
// Limit of all unread replies and incomplete requests of all clients together. A client that would exceed it is cut
// off, so that slow clients cannot fill dlrun's memory.
constexpr size_t kMaxBuffered = size_t{1} << 30;
constexpr int kBacklog = 65535;  // the kernel limits it to net.core.somaxconn

Error uv_error(int rc) {
  return Error{Errc::kIo, std::string("open the store's port: ") + uv_strerror(rc)};
}

// Answers of the check, which any thread passes to the loop's thread. Outlives the loop, since answers may come late.
struct Verdicts {
  std::mutex mutex;
  uv_async_t* async = nullptr;  // nullptr once the loop is closing
  std::vector<std::pair<ClientId, bool>> answers;

  void add(ClientId id, bool allowed) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (async == nullptr) return;
    answers.emplace_back(id, allowed);
    uv_async_send(async);
  }
};

std::string address_of(const sockaddr_storage& address, int* port) {
  char text[INET6_ADDRSTRLEN] = "";
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
  const auto* four = reinterpret_cast<const sockaddr_in*>(&address);
  if (address.ss_family == AF_INET6) {
    *port = ntohs(six->sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
      uv_inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, text, sizeof text);
    } else {
      uv_ip6_name(six, text, sizeof text);
    }
  } else {
    *port = ntohs(four->sin_port);
    uv_ip4_name(four, text, sizeof text);
  }
  return text;
}

}  // namespace

// Once the loop runs, only its own thread uses the members.
struct TcpStoreServer::Loop {
  struct Client {
    uv_tcp_t handle{};
    Loop* loop = nullptr;  // nullptr when the connection is being closed
    ClientId id = 0;
    Parser parser;
    std::string input;   // not served yet, because replies wait to be read
    std::string output;  // to be sent
    std::string sending;
    uv_write_t write{};
    bool dirty = false, paused = false, reading = false;
    size_t counted = 0;  // its part of `buffered`
  };

  MoreDescriptors descriptors;  // the limit is restored before the next learners are started
  uv_loop_t uv{};
  uv_tcp_t listener{};
  uv_async_t stop{};
  int port = 0;
  std::thread thread;
  ServeLimits limits;
  PeerCheck check;
  uv_async_t verdict{};
  std::shared_ptr<Verdicts> verdicts = std::make_shared<Verdicts>();
  TorchStore store;
  std::unordered_map<ClientId, Client*> clients;  // freed by their close callback
  std::vector<ClientId> dirty;                    // with data to send
  ClientId next_id = 1;
  std::atomic<bool> was_used{false};  // read by another thread
  size_t buffered = 0;
  std::vector<char> read_buffer = std::vector<char>(1 << 16);

  Status open();
  int listen(const sockaddr_storage& address);
  void run();
  static void on_connection(uv_stream_t* server, int status);
  void verify(Client* client);
  void take_verdicts();
  void read_on(Client* client);
  void receive(Client* client, const char* data, size_t size);
  void go_on(Client* client);
  bool serve_input(Client* client, const char* data, size_t size);
  bool recount(Client* client);
  void wake();
  void flush();
  void send(Client* client);
  void on_sent(Client* client, int status);
  void close(Client* client);
  void close_all();
};

Status TcpStoreServer::Loop::open() {
  uv_async_init(&uv, &stop, [](uv_async_t* async) { static_cast<Loop*>(async->data)->close_all(); });
  stop.data = this;
  uv_async_init(&uv, &verdict, [](uv_async_t* async) { static_cast<Loop*>(async->data)->take_verdicts(); });
  verdict.data = this;
  verdicts->async = &verdict;
  sockaddr_storage address{};
  uv_ip6_addr("::", 0, reinterpret_cast<sockaddr_in6*>(&address));
  int rc = listen(address);
  if (rc != 0) {  // this machine has no IPv6
    uv_close(reinterpret_cast<uv_handle_t*>(&listener), nullptr);
    uv_run(&uv, UV_RUN_NOWAIT);
    uv_ip4_addr("0.0.0.0", 0, reinterpret_cast<sockaddr_in*>(&address));
    rc = listen(address);
  }
  int size = sizeof address;
  if (rc == 0) rc = uv_tcp_getsockname(&listener, reinterpret_cast<sockaddr*>(&address), &size);
  if (rc != 0) return uv_error(rc);
  port = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return {};
}

int TcpStoreServer::Loop::listen(const sockaddr_storage& address) {
  uv_tcp_init(&uv, &listener);
  listener.data = this;
  const int rc = uv_tcp_bind(&listener, reinterpret_cast<const sockaddr*>(&address), 0);
  if (rc != 0) return rc;
  return uv_listen(reinterpret_cast<uv_stream_t*>(&listener), kBacklog, on_connection);
}

void TcpStoreServer::Loop::run() {
  uv_run(&uv, UV_RUN_DEFAULT);
}

void TcpStoreServer::Loop::on_connection(uv_stream_t* server, int status) {
  if (status != 0) return;
  auto* self = static_cast<Loop*>(server->data);
  self->was_used = true;
  auto* client = new Client;
  uv_tcp_init(&self->uv, &client->handle);
  client->handle.data = client;
  client->loop = self;
  client->id = self->next_id++;
  self->clients[client->id] = client;
  if (uv_accept(server, reinterpret_cast<uv_stream_t*>(&client->handle)) != 0) return self->close(client);
  uv_tcp_nodelay(&client->handle, 1);
  // Keepalive: without it, the connections of a lost node would stay open for hours.
  uv_tcp_keepalive(&client->handle, 1, 60);
  self->check ? self->verify(client) : self->read_on(client);
}

void TcpStoreServer::Loop::verify(Client* client) {
  sockaddr_storage address{};
  int size = sizeof address;
  if (uv_tcp_getpeername(&client->handle, reinterpret_cast<sockaddr*>(&address), &size) != 0) return close(client);
  Connection connection;
  connection.client = address_of(address, &connection.client_port);
  connection.server_port = port;
  check(connection, [all = verdicts, id = client->id](bool allowed) { all->add(id, allowed); });
}

void TcpStoreServer::Loop::take_verdicts() {
  std::vector<std::pair<ClientId, bool>> taken;
  {
    const std::lock_guard<std::mutex> lock(verdicts->mutex);
    taken.swap(verdicts->answers);
  }
  for (const auto& [id, allowed] : taken) {
    const auto at = clients.find(id);
    if (at != clients.end()) allowed ? read_on(at->second) : close(at->second);
  }
}

void TcpStoreServer::Loop::read_on(Client* client) {
  client->reading = true;
  uv_read_start(
      reinterpret_cast<uv_stream_t*>(&client->handle),
      [](uv_handle_t* handle, size_t /*suggested*/, uv_buf_t* buffer) {
        // All clients share one buffer: data is used up before the next read.
        auto& shared = static_cast<Client*>(handle->data)->loop->read_buffer;
        *buffer = uv_buf_init(shared.data(), static_cast<unsigned>(shared.size()));
      },
      [](uv_stream_t* stream, ssize_t n, const uv_buf_t* buffer) {
        auto* c = static_cast<Client*>(stream->data);
        if (c->loop == nullptr || n == 0) return;
        if (n < 0) return c->loop->close(c);
        c->loop->receive(c, buffer->base, static_cast<size_t>(n));
      });
}

void TcpStoreServer::Loop::receive(Client* client, const char* data, size_t size) {
  if (!serve_input(client, data, size)) close(client);
  flush();
  go_on(client);
}

// Serves the remaining input, if its replies have been read, and then continues or stops reading.
void TcpStoreServer::Loop::go_on(Client* client) {
  while (client->loop != nullptr && client->paused && client->sending.empty()) {
    client->paused = false;
    const std::string input = std::exchange(client->input, {});
    if (!serve_input(client, input.data(), input.size())) close(client);
    flush();
  }
  if (client->loop == nullptr || client->reading == !client->paused) return;
  if (!client->paused) return read_on(client);
  client->reading = false;
  uv_read_stop(reinterpret_cast<uv_stream_t*>(&client->handle));
}

// Returns false if the client has to be cut off.
bool TcpStoreServer::Loop::serve_input(Client* client, const char* data, size_t size) {
  size_t at = 0;
  while (at < size) {
    if (client->output.size() + client->sending.size() > kMaxUnsent) {
      client->paused = true;
      client->input.assign(data + at, size - at);
      break;
    }
    Request request;
    bool complete = false;
    const auto used = client->parser.feed(data + at, size - at, &request, &complete);
    if (!used) return false;
    at += *used;
    if (!complete) continue;
    if (!serve(&store, client->id, std::move(request), limits, &client->output)) return false;
    wake();
    if (!client->output.empty() && !client->dirty) {
      client->dirty = true;
      dirty.push_back(client->id);
    }
  }
  return recount(client);
}

bool TcpStoreServer::Loop::recount(Client* client) {
  const size_t now =
      client->parser.held_bytes() + client->input.size() + client->output.size() + client->sending.size();
  buffered += now;
  buffered -= client->counted;
  client->counted = now;
  return buffered <= kMaxBuffered;
}

void TcpStoreServer::Loop::wake() {
  for (const ClientId id : store.take_woken()) {
    auto at = clients.find(id);
    if (at == clients.end()) continue;
    Client* client = at->second;
    put_u8(&client->output, kStopWaiting);
    if (client->dirty) continue;
    client->dirty = true;
    dirty.push_back(id);
  }
}

void TcpStoreServer::Loop::flush() {
  for (const ClientId id : std::exchange(dirty, {})) {
    auto at = clients.find(id);
    if (at == clients.end()) continue;
    at->second->dirty = false;
    send(at->second);
  }
}

void TcpStoreServer::Loop::send(Client* client) {
  if (!client->sending.empty() || client->output.empty()) return;
  auto* stream = reinterpret_cast<uv_stream_t*>(&client->handle);
  uv_buf_t buffer = uv_buf_init(client->output.data(), static_cast<unsigned>(client->output.size()));
  const int sent = uv_try_write(stream, &buffer, 1);
  if (sent < 0 && sent != UV_EAGAIN) return close(client);
  if (sent == static_cast<int>(client->output.size())) {
    client->output.clear();
  } else {
    if (sent > 0) client->output.erase(0, static_cast<size_t>(sent));
    client->sending = std::exchange(client->output, {});
    client->write.data = client;
    buffer = uv_buf_init(client->sending.data(), static_cast<unsigned>(client->sending.size()));
    const int rc = uv_write(&client->write, stream, &buffer, 1, [](uv_write_t* write, int status) {
      auto* c = static_cast<Client*>(write->data);
      if (c->loop != nullptr) c->loop->on_sent(c, status);
    });
    if (rc != 0) return close(client);
  }
  recount(client);
}

void TcpStoreServer::Loop::on_sent(Client* client, int status) {
  client->sending = std::string();
  if (status != 0) return close(client);
  send(client);
  if (client->loop == nullptr) return;
  recount(client);
  go_on(client);
}

void TcpStoreServer::Loop::close(Client* client) {
  if (client->loop == nullptr) return;
  store.cancel_wait(client->id);
  clients.erase(client->id);
  buffered -= client->counted;
  client->loop = nullptr;
  uv_close(reinterpret_cast<uv_handle_t*>(&client->handle),
           [](uv_handle_t* handle) { delete static_cast<Client*>(handle->data); });
}

void TcpStoreServer::Loop::close_all() {
  {
    const std::lock_guard<std::mutex> lock(verdicts->mutex);
    verdicts->async = nullptr;
  }
  while (!clients.empty()) close(clients.begin()->second);
  uv_close(reinterpret_cast<uv_handle_t*>(&verdict), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&listener), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&stop), nullptr);
}

TcpStoreServer::TcpStoreServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(const ServeLimits& limits, PeerCheck check) {
  auto loop = std::make_unique<Loop>();
  loop->limits = limits;
  loop->check = std::move(check);
  if (int rc = uv_loop_init(&loop->uv); rc != 0) return uv_error(rc);
  if (Status opened = loop->open(); !opened) {
    loop->close_all();
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    return std::move(opened).error();
  }
  // Signals are handled by the main thread. A SIGPIPE from this thread is blocked, too, so that write() returns EPIPE.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  loop->thread = std::thread([raw = loop.get()] { raw->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(std::move(loop)));
}

TcpStoreServer::~TcpStoreServer() {
  uv_async_send(&loop_->stop);
  loop_->thread.join();
  uv_loop_close(&loop_->uv);
}

bool TcpStoreServer::was_used() const {
  return loop_->was_used;
}

int TcpStoreServer::port() const {
  return loop_->port;
}

}  // namespace dl::rendezvous
