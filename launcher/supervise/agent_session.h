// SPDX-License-Identifier: Apache-2.0
// dlrun's side of a session with an agent, which outlives its TCP connections. No socket and no clock here:
// ControlServer has the connections and the UDP socket, and callers pass times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/protocol/heartbeat.h"
#include "launcher/protocol/session_buffer.h"
#include "launcher/protocol/two_ways.h"
#include "launcher/supervise/beat_socket.h"

namespace dl::supervise {

class AgentSession {
 public:
  // Makes a session with random tokens. number: never used before. Fails if the kernel has no random numbers.
  static Result<AgentSession> open(uint64_t number, int udp_port);

  const protocol::OpenSession& offer() const { return offer_; }
  protocol::SessionBuffer& said() { return said_; }  // the lines sent to the agent that it has not acknowledged
  const protocol::UdpWatch& watch() const { return watch_; }
  uint64_t received() const { return received_; }  // how many lines of the agent's have arrived
  void count_received() { ++received_; }

  // The TCP connection was lost at now_ms. how: kUnacknowledged (timed out) or kClosed (by either side).
  void lost(protocol::Tcp how, int64_t now_ms);
  protocol::Tcp tcp() const { return tcp_; }
  // True if the token is right, the connection is newer than the present one, and all that the agent lacks can be
  // repeated.
  bool may_resume(const protocol::Resume& resume) const;
  // Takes the session up again and returns the answer. Only if may_resume() is true.
  protocol::Resumed resume(const protocol::Resume& resume);

  // Takes a datagram that names this session. False if its token is wrong or it is not newer than the last one.
  // *answer: set if a datagram is to be sent back.
  bool hear(const protocol::HeardBeat& heard, const BeatPeer& from, int64_t now_ms,
            std::optional<protocol::Beat>* answer);
  // Makes the datagram that asks for an answer. It is to be sent to peer(), which is not known before the agent was
  // heard.
  protocol::Beat probe(int64_t now_ms);
  void refused(const BeatPeer& to) { same_peer(to, peer_) ? watch_.refused(tcp_) : void(); }
  const BeatPeer& peer() const { return peer_; }
  const protocol::Token& token() const { return answer_; }  // of dlrun's datagrams

  protocol::Verdict verdict(int64_t now_ms) const { return judge(tcp_, watch_.state(now_ms), now_ms - lost_ms_); }

 private:
  protocol::Beat next(protocol::Beat::Kind kind);

  protocol::OpenSession offer_;
  protocol::Token token_{}, answer_{};
  protocol::SessionBuffer said_;
  uint64_t received_ = 0, tries_ = 0;
  uint16_t link_ = 0;
  protocol::Tcp tcp_ = protocol::Tcp::kFine;
  int64_t lost_ms_ = 0;
  protocol::UdpWatch watch_;
  BeatPeer peer_;
  uint64_t heard_ = 0, sent_ = 0;  // sequence numbers of datagrams
};

}  // namespace dl::supervise
