// SPDX-License-Identifier: Apache-2.0
// Connections that have not said who they are: anybody who reaches a node can open such. They get a moment to speak,
// and of each address only so many are kept, so that nobody fills dlrun's table of descriptors. Pure.
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

  // So many of the job's own may come at the same moment, all from one address: of one node, or of several on one host.
  void expect(size_t own) { own_ = own; }

  // Those that must go to make place for it: of the same peer, or of the one that has most, the oldest.
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

  // It has spoken, or is closed.
  void remove(Id id) {
    const auto known = peer_of_.find(id);
    if (known == peer_of_.end()) return;
    const auto peer = of_peer_.find(known->second);
    peer->second.erase(id);
    if (peer->second.empty()) of_peer_.erase(peer);
    peer_of_.erase(known);
  }

  // Those whose time is over; they are forgotten.
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
  std::map<std::string, std::map<Id, int64_t>> of_peer_;  // until when
  std::map<Id, std::string> peer_of_;
};

}  // namespace dl::supervise
