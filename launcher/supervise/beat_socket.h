// SPDX-License-Identifier: Apache-2.0
// dlrun's end of the heartbeats: one UDP socket on libuv's loop, IPv6 and IPv4 where the machine has them. It does not
// check who has sent a datagram, so what it hands on is untrusted. To be used by one thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#include <functional>

#include "common/base/result.h"
#include "launcher/protocol/heartbeat.h"

namespace dl::supervise {

// The sender of a datagram, and the local address that it was sent to. An answer must be sent from that address, since
// the agent's socket is connected to it and receives from nowhere else.
struct BeatPeer {
  sockaddr_storage address{};
  socklen_t size = 0;  // 0: not known
  in6_addr own{};
  bool own_known = false;
};
// True if address and port of the other end are known and the same.
bool same_peer(const BeatPeer& a, const BeatPeer& b);

class BeatSocket {
 public:
  struct Handlers {
    std::function<void(const protocol::HeardBeat&, const BeatPeer& from)> on_beat;
    // The kernel of the peer's own host has refused a datagram (ICMP): no process has the port.
    std::function<void(const BeatPeer& to)> on_refused;
  };

  BeatSocket(uv_loop_t* loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {}
  BeatSocket(const BeatSocket&) = delete;
  BeatSocket& operator=(const BeatSocket&) = delete;
  ~BeatSocket() { close(); }

  // Takes a free port on all addresses. Fails with the error of socket() or bind().
  Status open();
  int port() const { return port_; }  // 0: not open
  // The datagram may get lost. Does nothing if the socket is not open.
  void send(const protocol::Beat& beat, const protocol::Token& token, const BeatPeer& to);
  // Hands on the datagrams that have come, up to a limit. The loop does it too; call it before deciding that time is
  // over.
  void read();
  // After this the loop must run once more before the loop is destroyed.
  void close();

 private:
  void read_refusals();
  bool read_one();

  uv_loop_t* loop_;
  Handlers handlers_;
  uv_poll_t* poll_ = nullptr;
  int fd_ = -1, port_ = 0, family_ = AF_INET6;
};

}  // namespace dl::supervise
