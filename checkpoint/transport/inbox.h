// SPDX-License-Identifier: Apache-2.0
// Keeps messages that have arrived, by channel, until receive() takes them.
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

  // Called by the receiving thread. The thread that takes the message checks `hash`, which spreads the work.
  void put(uint64_t channel, RankMessage message, const Hash128& hash);
  // The connection of a rank has ended (true), or there is a new one (false).
  void set_gone(int rank, bool gone);
  // Whether less than 64 MiB of this rank's messages are waiting.
  bool has_room(int rank);
  // Does the work of Exchange::receive. *made_room is set if has_room() may have become true for the sender.
  Result<RankMessage> take(uint64_t channel, const std::vector<bool>& awaited, double timeout_s, bool* made_room);
  void close_channel(uint64_t channel);
  // Ends all calls of take().
  void shut();

 private:
  struct Item {
    RankMessage message;
    Hash128 hash;
  };
  bool closed(uint64_t channel) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::deque<Item>> channels_;
  std::map<uint16_t, uint64_t> closed_;  // the highest closed channel of each kind
  std::vector<uint64_t> waiting_;        // waiting bytes of each rank
  std::vector<bool> gone_;
  bool shut_ = false;
};

}  // namespace dl::ckpt
