// SPDX-License-Identifier: Apache-2.0
// dlrun's part of a PMIx fence, exchange and name store: what the servers of an attempt say goes in, what to answer
// whom comes out. A learner that is gone lets nobody wait: whatever needs it ends with kLostConnection. Pure: no
// socket, no clock. One for each attempt.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/pmix/messages.h"

namespace dl::pmix {

// Of what all learners of an attempt keep in dlrun together; kOutOfResource beyond.
struct Limits {
  size_t stored = 64 << 20;   // bytes published; and of the names that lookups wait for
  size_t keys = 1 << 16;      // published
  size_t open = 1 << 16;      // questions open at once, of each kind
  size_t fenced = 512 << 20;  // bytes of all open fences
};

class Exchange {
 public:
  struct Answer {
    int node;
    Message message;
  };
  using Answers = std::vector<Answer>;

  Exchange() = default;
  // Ranks of each node; every rank 0..n-1 stands there once.
  explicit Exchange(const std::vector<std::vector<int>>& ranks) : Exchange(ranks, Limits()) {}
  Exchange(const std::vector<std::vector<int>>& ranks, const Limits& limits);

  // A server's Fence, Get, Got, Publish, Lookup, Unpublish, Abort or Event; of anything else nothing comes. An Abort is
  // answered at once: what it means is the caller's to know. What names a rank that is not there is refused.
  Answers handle(int node, const Message& message);
  // This learner has ended: `failed`, or in order. Then nothing waits for it any more.
  Answers gone(int rank, bool failed);

 private:
  struct OpenFence {
    std::string kind;
    std::vector<int> ranks;
    std::set<int> nodes;                                // that take part
    std::map<int, std::pair<int64_t, std::string>> in;  // node -> its id and data
  };
  struct OpenGet {
    int asker = 0;
    int64_t id = 0;
    int rank = 0;
  };
  struct OpenLookup {
    int node = 0;
    Lookup question;
  };
  struct Stored {
    int rank = 0;
    std::string data;
  };

  Answers on_fence(int node, const Fence& fence);
  Answers on_get(int node, const Get& get);
  Answers on_got(int node, const Got& got);
  Answers on_publish(int node, const Publish& publish);
  Answers on_unpublish(int node, const Unpublish& unpublish);
  Answers on_lookup(int node, const Lookup& lookup);
  std::optional<Found> find(const Lookup& lookup) const;
  Answers settle(const OpenFence& fence, int status);
  bool known(int rank) const { return rank >= 0 && static_cast<size_t>(rank) < node_of_.size(); }
  bool on_node(int rank, int node) const { return known(rank) && node_of_[static_cast<size_t>(rank)] == node; }

  Limits limits_;
  std::vector<int> node_of_;  // by rank
  int nodes_ = 0;
  std::set<int> failed_;  // ranks
  std::list<OpenFence> fences_;
  size_t fenced_bytes_ = 0;
  int64_t next_get_ = 1;
  std::map<int64_t, OpenGet> gets_;
  std::map<std::string, Stored> stored_;
  size_t stored_bytes_ = 0;
  std::list<OpenLookup> lookups_;
  size_t awaited_bytes_ = 0;  // of their keys
};

}  // namespace dl::pmix
