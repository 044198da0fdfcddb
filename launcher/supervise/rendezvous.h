// SPDX-License-Identifier: Apache-2.0
// The rendezvous that dlrun hosts for the learners of an attempt, and who may use them: new ones for each attempt, so
// that nothing of an earlier one can be mistaken for this one's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/rendezvous/http_store_server.h"
#include "launcher/rendezvous/tcp_store_server.h"
#include "launcher/supervise/peer_questions.h"

namespace dl::supervise {

class Rendezvous {
 public:
  // ask: asks an agent of each node which user has opened a connection (peer_questions.h).
  Rendezvous(uv_loop_t* loop, PeerQuestions::Ask ask);
  ~Rendezvous() { close(); }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Open the store of torch.distributed, and Horovod's. endpoint: where dlrun listens; its host and the new port are
  // put into *facts, for learners. Errors of parse_endpoint() and of the servers' start().
  Status open_store(const std::string& endpoint, plan::RunFacts* facts);
  Status open_http_store(const std::string& endpoint, plan::RunFacts* facts);
  void close();
  // Something to tell the user, once: nobody has connected to the store of torch.distributed although all learners have
  // been running for a while. Empty otherwise. running_ms: how long they have.
  std::string look(int64_t running_ms);

  // Passed on to PeerQuestions.
  void answered(int64_t query, int uid) { peers_.answered(query, uid); }
  void tick(int64_t now_ms) { peers_.tick(now_ms); }
  // close() for good; the loop must run once more before this is destroyed.
  void close_handle();

 private:
  rendezvous::PeerCheck check();

  PeerQuestions peers_;
  std::unique_ptr<rendezvous::TcpStoreServer> store_;
  std::unique_ptr<rendezvous::HttpStoreServer> http_store_;
  std::string store_address_;
  bool told_ = false;
};

}  // namespace dl::supervise
