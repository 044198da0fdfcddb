// SPDX-License-Identifier: Apache-2.0
// The content of a TCPStore: values by key, queues by key, and which client waits for which keys. Pure: no socket, no
// clock, no thread. Each call does what torch's own server does (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp),
// except where that one crashes (as in add()) or loses a waiter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace dl::rendezvous {

using ClientId = uint64_t;  // never used twice

class TorchStore {
 public:
  void set(const std::string& key, std::string value);
  // Sets the key to `desired` if its value is `expected`, or if it is missing and `expected` is empty. Returns the
  // value afterwards; `expected`, as torch does, if the key is still missing.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);
  // nullptr if the key is missing. Valid until the next change.
  const std::string* get(const std::string& key) const;
  // Adds to a number that is kept as decimal text (missing: 0), and returns the sum. kInvalid if the value is no number
  // (torch's server ends there).
  Result<int64_t> add(const std::string& key, int64_t amount);
  bool remove(const std::string& key);  // only a value, not a queue; false if there is none
  void append(const std::string& key, const std::string& value);
  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  std::vector<std::string> keys() const;  // of values, not of queues; in no order

  void push(const std::string& key, std::string value);
  // Takes the oldest item. Returns how many there were, this one included; 0: none, and *value is left alone.
  int64_t pop(const std::string& key, std::string* value);
  int64_t queue_size(const std::string& key) const;

  // True if each key has a value, or a queue that is not empty.
  bool check(const std::vector<std::string>& keys) const;
  // True: all keys are there now. False: the client waits, and will be in take_woken() once each of the missing keys
  // has come (a key that is removed again meanwhile counts as come). A client has one wait at a time; a second call
  // replaces the first.
  bool wait(ClientId client, const std::vector<std::string>& keys);
  // Adds 1 to the key, as add() does. True: world_size is reached; the client may go on, and those that waited in this
  // barrier are in take_woken(). False: the client waits. Errors of add().
  Result<bool> barrier(ClientId client, const std::string& key, int64_t world_size);
  void cancel_wait(ClientId client);  // also if the client has disconnected

  // The clients whose wait has ended since the last call, each once, in the order of these ends.
  std::vector<ClientId> take_woken() { return std::exchange(woken_, {}); }

  // Memory held, roughly: the bytes of keys, values and waiters, and kEntryBytes for each.
  size_t bytes() const { return bytes_; }
  static constexpr size_t kEntryBytes = 128;

 private:
  struct Wait {
    std::vector<std::string> keys;  // the keys that were missing when it began; in a barrier its key
    size_t left = 0;
    bool in_barrier = false;
  };
  using Waiters = std::map<uint64_t, ClientId>;  // by number of arrival: the first waiter is served first

  void put(const std::string& key, std::string value);
  void arrived(const std::string& key);
  void end_wait(ClientId client);
  void forget_waiter(std::unordered_map<std::string, Waiters>* waiting, const std::string& key, uint64_t number);
  bool there(const std::string& key) const;

  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // none is empty
  std::unordered_map<std::string, Waiters> waiting_, in_barrier_;
  std::unordered_map<ClientId, std::pair<uint64_t, Wait>> waits_;  // number of arrival
  std::vector<ClientId> woken_;
  uint64_t next_number_ = 1;
  size_t bytes_ = 0;
};

}  // namespace dl::rendezvous
