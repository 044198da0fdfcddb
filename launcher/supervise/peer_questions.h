// SPDX-License-Identifier: Apache-2.0
// Finds out which user has opened a new connection to a rendezvous that dlrun hosts. The rendezvous servers ask from
// their own threads; on dlrun's loop the agents are asked, which see the sockets of their nodes. Connections of the
// job's own user and of root are served; those of other users, and those that no node of the job knows, are cut off.
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
  // Called with one sentence for each connection that was cut off.
  using Tell = std::function<void(const std::string& text)>;

  PeerQuestions(uv_loop_t* loop, unsigned own_uid, Ask ask, Tell tell);
  // Call close() before, and let the loop run once after that.
  ~PeerQuestions() = default;
  PeerQuestions(const PeerQuestions&) = delete;
  PeerQuestions& operator=(const PeerQuestions&) = delete;

  // The function by which servers ask; it may be called from any thread. Valid as long as this object.
  rendezvous::PeerCheck check();

  // The rest is for the loop's thread alone. An agent has answered; uid: -1 if its node has no such connection.
  void answered(int64_t query, int uid);
  void tick(int64_t now_ms);  // a question that nobody answers is answered "no" after 30 s
  // Answers all open questions "no", so that no server waits, and each new one at once, until open() is called.
  void shut();
  void open();
  void close();  // shut(), and closes libuv's handle

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
  std::vector<Question> incoming_;  // guarded by mutex_, as is shut_
  bool shut_ = true;
  std::map<int64_t, Question> open_;
  int64_t next_ = 1;
};

}  // namespace dl::supervise
