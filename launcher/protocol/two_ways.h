// SPDX-License-Identifier: Apache-2.0
// What the two ways between dlrun and an agent tell together: the TCP connection, which carries all messages, and the
// UDP heartbeats (heartbeat.h). Pure: times are milliseconds of any monotonic clock.
#pragma once

#include <cstdint>

namespace dl::supervise {

// An agent ends its learner when the newest word of its own that dlrun is known to have got, on either way, was said so
// long ago. dlrun reckons with it before it starts that learner elsewhere (fence_until_ms()).
constexpr int64_t kAgentLeaseMs = 2500;
constexpr int64_t kProbeLimitMs = 300;   // a datagram not answered for so long: that way is silent
constexpr int64_t kRowMs = 1000;         // questions further apart say nothing of one another
constexpr int64_t kWayLimitMs = 10'000;  // for a connection to be taken up again while datagrams are answered

enum class Tcp { kFine, kUnacknowledged, kClosed };  // kUnacknowledged: for as long as the kernel waits (2 s)
enum class Udp {
  kAnswers,
  kAsked,    // not answered yet
  kSilent,   // not answered for kProbeLimitMs
  kRefused,  // ICMP: no process has the port, though the kernel there lives
  kNever,    // never worked: a firewall, or an agent that does not speak it
};

enum class Verdict {
  kWell,
  kWait,         // the agent lives: it connects anew
  kAgentKilled,  // and its node lives
  kNodeLost,
  kWayBroken,  // the agent lives, but has not been able to connect anew within kWayLimitMs
};

// dlrun's: away_ms since the connection was lost.
Verdict judge(Tcp tcp, Udp udp, int64_t away_ms);
// The agent's, when dlrun's port has refused a new connection: whether dlrun is gone, or something on the way said so.
bool refusal_is_true(Udp udp);

// What one side knows of the UDP way.
class UdpWatch {
 public:
  void asked(int64_t now_ms);     // a datagram was sent that wants an answer
  void answered(int64_t now_ms);  // the other side is heard, and has heard us
  // Where TCP is fine, it is a firewall that refuses, and the way counts as one that never worked until it does again.
  void refused(Tcp tcp);
  void taken_up() { refused_ = false, asked_ms_ = -1; }  // the connection is there again
  Udp state(int64_t now_ms) const;
  int64_t answered_ms() const { return answered_ms_; }  // -1: never

 private:
  bool refused_ = false, worked_ = false;
  int64_t asked_ms_ = -1;  // the first that was not answered, of those in a row; -1: none is
  int64_t last_asked_ms_ = -1;
  int64_t answered_ms_ = -1;
};

// When no process of a learner can run any more whose agent was given up at now_ms because it was silent; answered_ms:
// UdpWatch's.
int64_t fence_until_ms(int64_t now_ms, int64_t answered_ms);

}  // namespace dl::supervise
