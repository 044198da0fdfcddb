// SPDX-License-Identifier: Apache-2.0
// The receiving half of the exchange: it accepts connections, lets each peer prove that it knows the secret, and puts
// messages into the inbox. Its single thread never waits for one peer, so a stranger that connects and sends nothing,
// or nonsense, delays nobody.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/store/quiet_thread.h"
#include "checkpoint/transport/inbox.h"
#include "checkpoint/transport/wire.h"
#include "common/base/unique_fd.h"

namespace dl::ckpt {

class Receiver {
 public:
  // `inbox` is borrowed.
  Receiver(UniqueFd listener, std::string secret, int rank, int size, Inbox* inbox);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // Starts the thread. kIo if that is impossible.
  Status start();
  // To be called when the inbox has room again.
  void wake();
  // Frees memory that is not in use.
  void trim() { pool_->trim(); }
  // Number of connections that were refused since the start: wrong proof, too slow, damaged.
  uint64_t refused() const { return refused_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    UniqueFd fd;
    Clock::time_point prove_until;
    wire::Nonce nonce{};
    int from = -1;  // the peer's rank; -1 until it is proved
    size_t have = 0;
    std::array<unsigned char, wire::kAnswerBytes> small{};  // receives an answer or a head
    bool in_body = false;
    wire::Head head;
    Bytes body;
  };

  void run();
  void accept_all();
  // False if the connection has to be closed.
  bool read(Connection* connection);
  bool fill(Connection* connection, unsigned char* to, size_t size, bool* complete);
  bool prove(Connection* connection);
  void deliver(Connection* connection);
  void drop(size_t index);

  UniqueFd listener_, wake_;
  std::string secret_;
  int rank_, size_;
  Inbox* inbox_;
  std::shared_ptr<BufferPool> pool_;
  bool accepting_ = true;  // false for a while after a lack of descriptors or memory
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> of_rank_;  // the newest connection of each rank
  QuietThread thread_;
  pid_t pid_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> refused_{0};
};

}  // namespace dl::ckpt
