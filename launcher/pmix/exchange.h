// SPDX-License-Identifier: Apache-2.0
// Does dlrun's part of PMIx fences, direct modex (Get) and published names: it takes the messages of an attempt's PMIx
// servers and returns the messages to send. When a learner has failed, everything that needs it ends with
// kLostConnection. Pure: no socket, no clock. One object for each attempt.
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

// Limits of what all learners of an attempt keep in dlrun together. Requests beyond them get kOutOfResource.
struct Limits {
  size_t stored = 64 << 20;   // bytes published; also bytes of the keys that lookups wait for
  size_t keys = 1 << 16;      // keys published
  size_t open = 1 << 16;      // open fences, Gets and waiting lookups, each
  size_t fenced = 512 << 20;  // bytes of all open fences
};

class Exchange {
 public:
  struct Answer {
    int node;
    PmixMessage message;
  };
  using Answers = std::vector<Answer>;

  Exchange() = default;
  // ranks: of each node; every rank 0..n-1 occurs once.
  explicit Exchange(const std::vector<std::vector<int>>& ranks) : Exchange(ranks, Limits()) {}
  Exchange(const std::vector<std::vector<int>>& ranks, const Limits& limits);

  // node: whose server sent the message. Handles Fence, Get, Got, Publish, Lookup, Unpublish, Abort and Event; ignores
  // others. An Abort is only answered: the caller has to act on it. A request that names an unknown rank, or a rank of
  // another node as its own, gets an error or is ignored.
  Answers handle(int node, const PmixMessage& message);
  // This learner has ended. If it failed, open fences with it end, and later ones fail at once, with kLostConnection.
  // Open Gets of its data end with kLostConnection, or kNotFound if it ended in order.
  Answers gone(int rank, bool failed);

 private:
  struct OpenFence {
    std::string kind;
    std::vector<int> ranks;
    std::set<int> nodes;                                // those that take part
    std::map<int, std::pair<int64_t, std::string>> in;  // by node: its question's id, and its data
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
  size_t awaited_bytes_ = 0;  // bytes of the keys that lookups wait for
};

}  // namespace dl::pmix
