// SPDX-License-Identifier: Apache-2.0
// The agent's end of the heartbeats to dlrun: a connected UDP socket, beside the TCP connection (channel.h).
#pragma once

#include <netdb.h>

#include <array>
#include <cstdint>

#include "common/base/unique_fd.h"
#include "launcher/protocol/heartbeat.h"
#include "launcher/protocol/two_ways.h"

namespace dl::protocol {

class Beats {
 public:
  // Opens the socket to this port at dlrun's address. own, dlruns: the tokens of the datagrams sent and received. If it
  // fails, only the TCP connection remains.
  void open(const addrinfo& dlrun, int port, uint64_t session, const Token& own, const Token& dlruns);
  int fd() const { return fd_.get(); }

  // Sends a beat if one is due: each 5 s, each 0.1 s if `anxious`, and each 0.5 s in the beginning.
  void tick(int64_t now_ms, bool anxious);
  // Sends a beat now, and no longer counts earlier ones as unanswered.
  void ask_anew(int64_t now_ms);
  // Reads what has come. True if dlrun reports that it has lost the TCP connection that was resumed as number `link`.
  bool read(int64_t now_ms, uint16_t link);
  void taken_up() { watch_.taken_up(); }  // the TCP connection is open again

  Udp state(int64_t now_ms) const { return watch_.state(now_ms); }
  // Send time of the newest datagram that dlrun is known to have received; -1: none.
  int64_t acknowledged_ms() const { return acknowledged_ms_; }

 private:
  void refused() { watch_.refused(Tcp::kClosed); }
  void beat(int64_t now_ms);
  void send(Beat::Kind kind, int64_t now_ms);
  void acknowledge(uint64_t sequence);

  struct Sent {
    uint64_t sequence = 0;
    int64_t at_ms = 0;
  };

  UniqueFd fd_;
  uint64_t session_ = 0, sequence_ = 0, heard_ = 0;
  Token own_{}, dlruns_{};
  UdpWatch watch_;
  std::array<Sent, 64> sent_{};  // datagrams of the last seconds, by sequence modulo the size
  int64_t acknowledged_ms_ = -1, last_beat_ms_ = -1;
  int unanswered_ = 0;
};

}  // namespace dl::protocol
