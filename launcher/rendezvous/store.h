// SPDX-License-Identifier: Apache-2.0
// What a TCPStore holds: values by key, queues by key, and who waits for which keys. Pure: no socket, no clock, no
// thread. The meaning of each call is that of torch's own server
// (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp), except where that one crashes or loses a waiter; such places
// say so.
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

class Store {
 public:
  void set(const std::string& key, std::string value);
  // The value afterwards; for a missing key and an expected value that is not empty: the expected one, as torch does.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);
  // nullptr if the key is missing. Valid until the next change.
  const std::string* get(const std::string& key) const;
  // The sum, kept as decimal text. kInvalid if the key holds something else (torch's server ends there).
  Result<int64_t> add(const std::string& key, int64_t amount);
  bool remove(const std::string& key);  // a value; queues stay
  void append(const std::string& key, const std::string& value);
  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  std::vector<std::string> keys() const;  // of values, in no order

  void push(const std::string& key, std::string value);
  // How many there were, the one taken included; 0: none, and *value is left alone.
  int64_t pop(const std::string& key, std::string* value);
  int64_t queue_size(const std::string& key) const;

  // All are there: a value, or a queue that is not empty.
  bool check(const std::vector<std::string>& keys) const;
  // True: all are there now. False: the client waits, and will be in woken() once each of the missing ones has come
  // since (it is not looked again whether they still are there). A client waits for one thing at a time; a second call
  // replaces the first.
  bool wait(ClientId client, const std::vector<std::string>& keys);
  // Counts the client in under the key (as add() does). True: it and all who waited in this barrier may go on, which
  // are in woken(). False: it waits. Errors of add().
  Result<bool> barrier(ClientId client, const std::string& key, int64_t world_size);
  void cancel_wait(ClientId client);  // or it is gone

  // Whose wait has ended since the last call, each once, in that order.
  std::vector<ClientId> take_woken() { return std::exchange(woken_, {}); }

  // Memory held, roughly: the bytes of keys, values and waiters, and kEntryBytes for each.
  size_t bytes() const { return bytes_; }
  static constexpr size_t kEntryBytes = 128;

 private:
  struct Wait {
    std::vector<std::string> keys;  // those still missing when it began; in a barrier its key
    size_t left = 0;
    bool in_barrier = false;
  };
  using Waiters = std::map<uint64_t, ClientId>;  // by number of arrival, so that queues are served in turn

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
