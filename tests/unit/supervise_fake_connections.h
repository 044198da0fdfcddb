// SPDX-License-Identifier: Apache-2.0
// Connections for tests: they keep what is sent to whom, and answer what the test has set.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/supervise/connections.h"

namespace dl::supervise {

class FakeConnections : public Connections {
 public:
  void send_line(ConnectionId id, const std::string& line) override { said[id].push_back(line); }
  void ping(ConnectionId id) override { ++pings[id]; }
  void close(ConnectionId id) override {
    closed.insert(id);
    sessions.erase(id);
    cut.erase(id);
  }
  void open_session(ConnectionId id) override { sessions.insert(id); }
  bool has_session(ConnectionId id) const override { return sessions.count(id) > 0; }
  bool connected(ConnectionId id) const override { return closed.count(id) == 0 && cut.count(id) == 0; }
  bool unacknowledged(ConnectionId id) const override { return behind.count(id) > 0; }
  void probe(ConnectionId id) override { ++probes[id]; }
  void read_beats() override {}
  protocol::Verdict verdict(ConnectionId id) const override {
    const auto found = verdicts.find(id);
    return found != verdicts.end() ? found->second : protocol::Verdict::kWait;
  }
  protocol::Udp udp(ConnectionId /*id*/) const override { return udp_way; }
  int64_t answered_ms(ConnectionId /*id*/) const override { return answered; }

  // Whether the newest line to `id` is this message.
  bool last_was(ConnectionId id, const protocol::ControlMessage& message) const {
    const auto lines = said.find(id);
    return lines != said.end() && !lines->second.empty() && lines->second.back() == encode(message);
  }

  std::map<ConnectionId, std::vector<std::string>> said;
  std::map<ConnectionId, int> pings, probes;
  std::set<ConnectionId> closed, sessions, cut, behind;  // cut: only the session is left
  std::map<ConnectionId, protocol::Verdict> verdicts;
  protocol::Udp udp_way = protocol::Udp::kAnswers;
  int64_t answered = -1;
};

}  // namespace dl::supervise
