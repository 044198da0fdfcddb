// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/http_store_server.h"

#include <civetweb.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/base/unique_fd.h"

namespace dl::rendezvous {
namespace {

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 411:
      return "Length Required";
    case 413:
      return "Payload Too Large";
    case 507:
      return "Insufficient Storage";
    default:
      return "Bad Request";
  }
}

void answer(mg_connection* connection, const HttpReply& reply) {
  // Horovod's client waits for more if a reply gives no length.
  const std::string text = fmt::format("HTTP/1.1 {} {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                                       reply.status, reason(reply.status), reply.body.size(), reply.body);
  mg_write(connection, text.data(), text.size());
}

// Returns false if the client stops before the end of the body.
bool read_body(mg_connection* connection, size_t size, std::string* body) {
  body->resize(size);
  for (size_t have = 0; have < size;) {
    const int n = mg_read(connection, body->data() + have, size - have);
    if (n <= 0) return false;
    have += static_cast<size_t>(n);
  }
  return true;
}

void wake(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  static_cast<void>(
      // If this fails, the next call may succeed
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
}

int quiet(const mg_connection* /*connection*/, const char* /*message*/) {
  return 1;  // clients' mistakes do not belong in the job's output
}

}  // namespace

struct HttpStoreServer::State {
  explicit State(const KeyValueLimits& limits) : value_limit(limits.value), store(limits) {}

  const size_t value_limit;
  std::mutex mutex;
  KeyValueStore store;  // under mutex
  mg_context* context = nullptr;
  int port = 0;
  PeerCheck check;

  // Waits for the answer of the check, which always comes.
  bool allows(const mg_request_info& request) const {
    if (!check) return true;
    auto answer = std::make_shared<std::promise<bool>>();
    std::future<bool> allowed = answer->get_future();
    check({request.remote_addr, request.remote_port, port}, [answer](bool yes) { answer->set_value(yes); });
    return allowed.get();
  }

  HttpReply serve(mg_connection* connection) {
    const mg_request_info* request = mg_get_request_info(connection);
    if (!allows(*request)) return {403, ""};
    const std::string method = request->request_method == nullptr ? "" : request->request_method;
    const std::string path = request->local_uri == nullptr ? "" : request->local_uri;
    std::string body;
    if (method == "PUT") {
      if (request->content_length < 0) return {411, ""};
      if (static_cast<size_t>(request->content_length) > value_limit) return {413, ""};
      if (!read_body(connection, static_cast<size_t>(request->content_length), &body)) return {400, ""};
    }
    const std::lock_guard<std::mutex> lock(mutex);
    return store.handle(method, path, std::move(body));
  }
};

Result<std::unique_ptr<HttpStoreServer>> HttpStoreServer::start(const KeyValueLimits& limits, PeerCheck check) {
  auto state = std::make_unique<State>(limits);
  state->check = std::move(check);
  mg_callbacks callbacks{};
  callbacks.log_message = quiet;
  // Each rank makes a few requests of about a millisecond, so more threads would only wait for slow clients.
  const auto start_on = [&](const char* port) {
    std::array<const char*, 11> options = {"listening_ports",    port,   "num_threads",    "16",
                                           "request_timeout_ms", "2000", "listen_backlog", "4096",
                                           "connection_queue",   "1024", nullptr};
    return mg_start(&callbacks, nullptr, options.data());
  };
  state->context = start_on("+0");
  if (state->context == nullptr) state->context = start_on("0");  // this machine has no IPv6
  if (state->context == nullptr)
    return Error{Errc::kIo, "no port could be opened for Horovod's rendezvous on this node"};
  mg_server_port listening{};
  if (mg_get_server_ports(state->context, 1, &listening) == 1) state->port = listening.port;
  mg_set_request_handler(
      state->context, "/",
      [](mg_connection* connection, void* data) {
        // civetweb is C: no exception may pass through it.
        try {
          const HttpReply reply = static_cast<State*>(data)->serve(connection);
          answer(connection, reply);
          return reply.status;
        } catch (...) {
          return 500;
        }
      },
      state.get());
  return std::unique_ptr<HttpStoreServer>(new HttpStoreServer(std::move(state)));
}

HttpStoreServer::HttpStoreServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

// civetweb checks only every two seconds whether it should stop, and a connection wakes it. Without that, dlrun's
// restarts would no longer take milliseconds.
HttpStoreServer::~HttpStoreServer() {
  std::atomic<bool> stopped{false};
  std::thread stop([&] {
    mg_stop(state_->context);
    stopped = true;
  });
  while (!stopped) {
    wake(state_->port);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stop.join();
}

int HttpStoreServer::port() const {
  return state_->port;
}

}  // namespace dl::rendezvous
