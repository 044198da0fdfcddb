// SPDX-License-Identifier: Apache-2.0
// Whose is a new connection to a rendezvous that dlrun hosts? Its servers ask from threads of their own; the agents of
// the nodes, which can see, are asked over the control connections, on dlrun's loop. One of the job's own user (and of
// root) is served; one of anybody else, and one that no node of the job knows, is cut off.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "launcher/rendezvous/peer_check.h"

namespace dl::supervise {

class PeerQuestions {
 public:
  // Asks one agent of each node (on the loop's thread); returns how many will answer.
  using Ask = std::function<int(int64_t query, const rendezvous::Connection& connection)>;
  // Told once for each that was cut off, with a sentence.
  using Tell = std::function<void(const std::string& text)>;

  PeerQuestions(uv_loop_t* loop, unsigned own_uid, Ask ask, Tell tell);
  // close() was called, and the loop has run since.
  ~PeerQuestions() = default;
  PeerQuestions(const PeerQuestions&) = delete;
  PeerQuestions& operator=(const PeerQuestions&) = delete;

  // For the servers; any thread.
  rendezvous::PeerCheck check();

  // The loop's thread alone. uid: -1 where that node has no such connection.
  void answered(int64_t query, int uid);
  void tick(int64_t now_ms);  // no answer in time counts as none
  // Cuts off all that is open, so that no server waits for an answer; new ones until open() at once.
  void shut();
  void open();
  void close();  // the handle

 private:
  struct Question {
    rendezvous::Connection connection;
    std::function<void(bool)> answer;
    int64_t since_ms = 0;
    int waiting_for = 0;
  };
  void take();
  void settle(int64_t query, bool allowed, const std::string& whose);

  unsigned own_uid_;
  Ask ask_;
  Tell tell_;
  uv_async_t async_{};
  std::mutex mutex_;
  std::vector<Question> incoming_;  // under mutex_, as shut_
  bool shut_ = true;
  std::map<int64_t, Question> open_;
  int64_t next_ = 1;
};

}  // namespace dl::supervise
