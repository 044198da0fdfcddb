// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/rendezvous.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "launcher/protocol/control_protocol.h"

namespace dl::supervise {

using namespace protocol;

namespace {
// How long a store may stay unused without a warning: importing PyTorch and reading data may take this long.
constexpr int64_t kUnusedMs = 60'000;
}  // namespace

Rendezvous::Rendezvous(uv_loop_t* loop, PeerQuestions::Ask ask)
    : peers_(loop, ::getuid(), std::move(ask),
             [](const std::string& text) { std::fprintf(stderr, "dlrun: warning: %s\n", text.c_str()); }) {}

rendezvous::PeerCheck Rendezvous::check() {
  // Switched off for a container that maps user ids: its learners' connections come from another user id.
  if (environment_value(env::kCheckConnections) == "0") return {};
  return peers_.check();
}

Status Rendezvous::open_store(const std::string& endpoint, plan::RunFacts* facts) {
  DL_TRY_ASSIGN(const auto at, parse_endpoint(endpoint));
  peers_.open();
  DL_TRY_ASSIGN(store_, rendezvous::TcpStoreServer::start({}, check()));
  facts->store_addr = at.first;
  facts->store_port = store_->port();
  store_address_ = fmt::format("{}:{}", facts->store_addr, facts->store_port);
  told_ = false;
  return {};
}

Status Rendezvous::open_http_store(const std::string& endpoint, plan::RunFacts* facts) {
  DL_TRY_ASSIGN(const auto at, parse_endpoint(endpoint));
  peers_.open();
  DL_TRY_ASSIGN(http_store_, rendezvous::HttpStoreServer::start({}, check()));
  facts->http_store_addr = at.first;
  facts->http_store_port = http_store_->port();
  return {};
}

std::string Rendezvous::look(int64_t running_ms) {
  if (told_ || store_ == nullptr || running_ms < kUnusedMs || store_->was_used()) return {};
  told_ = true;
  return fmt::format(
      "no learner has come to the store of torch.distributed, {}, for {} s; processes that set MASTER_ADDR or "
      "MASTER_PORT "
      "themselves wait for one another for ever: leave both to dlrun, or use --framework generic, where learner 0 "
      "hosts "
      "the store",
      store_address_, kUnusedMs / 1000);
}

// Open questions are answered before the servers end: a thread of a server may be waiting for an answer.
void Rendezvous::close() {
  peers_.shut();
  store_.reset();
  http_store_.reset();
}

void Rendezvous::close_handle() {
  close();
  peers_.close();
}

}  // namespace dl::supervise
