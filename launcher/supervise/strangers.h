// SPDX-License-Identifier: Apache-2.0
// Connections that have not identified themselves, which anybody who reaches the node can open. Their time and their
// number are limited, for each address and in all, so that nobody uses up dlrun's file descriptors. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dl::supervise {

class Strangers {
 public:
  using Id = uint64_t;
  static constexpr int64_t kToSpeakMs = 10'000;  // an agent says hello with its first packet
  static constexpr size_t kOfOnePeer = 256;
  static constexpr size_t kInAll = 16'384;

  // How many connections of the job's own processes may come at the same moment, besides the limits, perhaps all from
  // one address.
  void expect(size_t own) { own_ = own; }

  // Adds a connection. Returns those that the caller must close to make room: the oldest of this peer, or of the peer
  // with the most.
  std::vector<Id> add(Id id, const std::string& peer, int64_t now_ms) {
    std::vector<Id> out;
    if (of_peer_[peer].size() >= kOfOnePeer + own_) out.push_back(of_peer_[peer].begin()->first);
    if (out.empty() && peer_of_.size() >= kInAll + own_) {
      const auto most = std::max_element(of_peer_.begin(), of_peer_.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      });
      out.push_back(most->second.begin()->first);
    }
    for (const Id gone : out) remove(gone);
    of_peer_[peer][id] = now_ms + kToSpeakMs;
    peer_of_[id] = peer;
    return out;
  }

  // To be called when a connection has identified itself, or is closed. Unknown ids are ignored.
  void remove(Id id) {
    const auto known = peer_of_.find(id);
    if (known == peer_of_.end()) return;
    const auto peer = of_peer_.find(known->second);
    peer->second.erase(id);
    if (peer->second.empty()) of_peer_.erase(peer);
    peer_of_.erase(known);
  }

  // Returns the connections whose time is over, for the caller to close, and forgets them.
  std::vector<Id> overdue(int64_t now_ms) {
    std::vector<Id> out;
    for (const auto& [peer, ids] : of_peer_)
      for (const auto& [id, until_ms] : ids) {
        if (until_ms > now_ms) break;  // ids grow with time
        out.push_back(id);
      }
    for (const Id id : out) remove(id);
    return out;
  }

  size_t size() const { return peer_of_.size(); }

 private:
  size_t own_ = 0;
  std::map<std::string, std::map<Id, int64_t>> of_peer_;  // by peer: until when it may be silent
  std::map<Id, std::string> peer_of_;
};

}  // namespace dl::supervise
