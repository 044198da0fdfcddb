// SPDX-License-Identifier: Apache-2.0
// dlrun's end of the heartbeats: one UDP socket on libuv's loop, IPv6 and IPv4 where the machine has them. It knows
// nothing of who may speak: what it gives is as hostile as what came. In one thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#include <functional>

#include "common/base/result.h"
#include "launcher/protocol/heartbeat.h"

namespace dl::supervise {

// The other end of a datagram, and the address of ours that it was sent to: an answer must come from there, since the
// agent's socket takes it from nowhere else.
struct BeatPeer {
  sockaddr_storage address{};
  socklen_t size = 0;  // 0: not known
  in6_addr own{};
  bool own_known = false;
};
// Address and port of the other end are the same.
bool same_peer(const BeatPeer& a, const BeatPeer& b);

class BeatSocket {
 public:
  struct Handlers {
    std::function<void(const HeardBeat&, const BeatPeer& from)> on_beat;
    // What was sent there was refused by the kernel of that very host: no process has the port.
    std::function<void(const BeatPeer& to)> on_refused;
  };

  BeatSocket(uv_loop_t* loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {}
  BeatSocket(const BeatSocket&) = delete;
  BeatSocket& operator=(const BeatSocket&) = delete;
  ~BeatSocket() { close(); }

  // Any address, a free port.
  Status open();
  int port() const { return port_; }  // 0: not open
  // Best effort, as datagrams are.
  void send(const Beat& beat, const Token& token, const BeatPeer& to);
  // Hands on what has come, a bounded number. The loop does it too; call it before a decision that time makes.
  void read();
  // The loop must be run once more before it is destroyed itself.
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
