// SPDX-License-Identifier: Apache-2.0
// Keeps messages that have arrived, by channel, until they are asked for.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "checkpoint/format/hash.h"
#include "checkpoint/transport/exchange.h"

namespace dl::ckpt {

class Inbox {
 public:
  explicit Inbox(int size) : waiting_(static_cast<size_t>(size), 0), gone_(static_cast<size_t>(size), false) {}

  // Called by the receiving thread. The thread that asks for the message checks `hash`, which spreads the work.
  void put(uint64_t channel, Message message, const Hash128& hash);
  // A rank's connection has ended, or it has a new one.
  void set_gone(int rank, bool gone);
  // Whether less than 64 MiB of this rank wait.
  bool has_room(int rank);
  // Exchange::receive. *made_room: whether has_room(from) may have become true.
  Result<Message> take(uint64_t channel, const std::vector<bool>& awaited, double timeout_s, bool* made_room);
  void close_channel(uint64_t channel);
  // Ends all take().
  void shut();

 private:
  struct Item {
    Message message;
    Hash128 hash;
  };
  bool closed(uint64_t channel) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::deque<Item>> channels_;
  std::map<uint16_t, uint64_t> closed_;  // by kind: the highest closed channel
  std::vector<uint64_t> waiting_;        // bytes by rank
  std::vector<bool> gone_;
  bool shut_ = false;
};

}  // namespace dl::ckpt
