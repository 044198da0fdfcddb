// SPDX-License-Identifier: Apache-2.0
// The stores at which the learners of an attempt meet: which agents are asked whose a connection is, and how the
// attempt goes on when a store is missing.
#include <fmt/core.h>

#include <set>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;

void Supervisor::open_rendezvous() {
  // An agent sees all connections of its node, so one agent of each node is asked.
  rendezvous_ = std::make_unique<Rendezvous>(&loop_, [this](int64_t query, const rendezvous::Connection& connection) {
    std::set<std::string> asked;
    const std::string line =
        encode(WhoConnects{query, connection.client, connection.client_port, connection.server_port});
    for (size_t i = 0; i < attempt_.learners().size(); ++i) {
      const int rank = static_cast<int>(i);
      if (agents_->has(rank) && asked.insert(attempt_.learners()[i].host).second) agents_->tell_line(rank, line);
    }
    return static_cast<int>(asked.size());
  });
}

// A failure to open Horovod's store is returned, so that no learner starts: each would take itself for the only one.
// Without the store of torch.distributed, learner 0 hosts one.
Status Supervisor::open_stores(plan::RunFacts* facts) {
  if (plan().launcher_store) {
    if (Status opened = rendezvous_->open_store(endpoint_, facts); !opened) {
      voice_.say(fmt::format("learner 0 hosts the store: {}", opened.error().text));
      nodes_.drop_launcher_store();
      remember([this](record::RunMemory* memory) { memory->store_host = nodes_.store_host(); });
    }
  }
  return plan().http_store ? rendezvous_->open_http_store(endpoint_, facts) : Status{};
}

void Supervisor::start_without_store() {
  nodes_.use_store_without_libuv();
  remember([this](record::RunMemory* memory) { memory->store_host = nodes_.store_host(); });
  const std::string why = "this PyTorch has no libuv: learner 0 hosts the store";
  voice_.say(why + " (with USE_LIBUV=0 in the job's environment this second start is not needed)");
  start_attempt(why);
}

}  // namespace dl::supervise
