// SPDX-License-Identifier: Apache-2.0
// The rendezvous that dlrun hosts for its learners, and who may use them.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "launcher/common/env_names.h"
#include "launcher/common/this_process.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

void Supervisor::watch_peers() {
  // A node's agent sees the connections of its node; one of each, since the agents of a node see the same.
  const auto ask = [this](int64_t query, const rendezvous::Connection& connection) {
    std::set<std::string> asked;
    const std::string line =
        encode(WhoConnects{query, connection.client, connection.client_port, connection.server_port});
    for (const Learner& learner : learners_) {
      if (learner.connection == 0 || !asked.insert(learner.host).second) continue;
      server_->send_line(learner.connection, line);
    }
    return static_cast<int>(asked.size());
  };
  peers_ = std::make_unique<PeerQuestions>(&loop_, ::getuid(), ask, [](const std::string& text) {
    std::fprintf(stderr, "dlrun: warning: %s\n", text.c_str());
  });
}

rendezvous::PeerCheck Supervisor::peer_check() {
  // For learners whose connections come from another user id: a container that maps ids.
  if (environment_value(env::kCheckConnections) == "0") return {};
  return peers_->check();
}

// A new store for each attempt: nothing of an earlier one can be mistaken for this one's.
void Supervisor::open_store() {
  if (!plan_.launcher_store) return;
  auto endpoint = parse_endpoint(endpoint_);
  auto opened = rendezvous::TcpStoreServer::start({}, peer_check());
  if (!opened || !endpoint) {
    say(fmt::format("learner 0 hosts the store: {}", opened ? endpoint.error().text : opened.error().text));
    plan_.launcher_store = false;
    return;
  }
  store_ = *std::move(opened);
  facts_.store_addr = endpoint->first;
  facts_.store_port = store_->port();
}

// The same for Horovod's rendezvous. Without it nobody may start: each would take itself for the only one.
Status Supervisor::open_http_store() {
  if (!plan_.http_store) return {};
  auto endpoint = parse_endpoint(endpoint_);
  if (!endpoint) return endpoint.error();
  auto opened = rendezvous::HttpStoreServer::start({}, peer_check());
  if (!opened) return opened.error();
  http_store_ = *std::move(opened);
  facts_.http_store_addr = endpoint->first;
  facts_.http_store_port = http_store_->port();
  return {};
}

// Questions first: a thread of a server may wait for the answer.
void Supervisor::close_stores() {
  peers_->shut();
  store_.reset();
  http_store_.reset();
}

}  // namespace dl::supervise
