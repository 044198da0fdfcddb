// SPDX-License-Identifier: Apache-2.0
// Decides what dlrun and an agent conclude from the two ways between them: the TCP connection, which carries all
// messages, and the UDP heartbeats (heartbeat.h). Pure: times are milliseconds of any monotonic clock.
#pragma once

#include <cstdint>

namespace dl::protocol {

// An agent ends its learner this long after it sent the newest data that dlrun has acknowledged, by TCP or UDP. dlrun
// waits accordingly before it starts that learner elsewhere (fence_until_ms()).
constexpr int64_t kAgentLeaseMs = 2500;
constexpr int64_t kProbeLimitMs = 300;   // time without an answer to a datagram after which UDP counts as silent
constexpr int64_t kRowMs = 1000;         // unanswered datagrams further apart are not one series
constexpr int64_t kWayLimitMs = 10'000;  // how long a connection may stay broken while datagrams are answered

enum class Tcp { kFine, kUnacknowledged, kClosed };  // kUnacknowledged: timed out in the kernel (2 s)
enum class Udp {
  kAnswers,
  kAsked,    // the newest question is not answered yet
  kSilent,   // not answered for kProbeLimitMs
  kRefused,  // its kernel reports by ICMP that no process has the port
  kNever,    // no datagram has gone both ways yet: a firewall, or an agent without heartbeats
};

enum class Verdict {
  kWell,
  kWait,         // undecided, or the agent lives and connects anew
  kAgentKilled,  // its node lives
  kNodeLost,
  kWayBroken,  // not decided or not connected anew within kWayLimitMs
};

// What dlrun concludes about an agent. away_ms: time since the TCP connection was lost.
Verdict judge(Tcp tcp, Udp udp, int64_t away_ms);
// For an agent whose new connection was refused: true if dlrun has ended, false if a firewall has refused in its name.
bool refusal_is_true(Udp udp);

// What one side knows about the UDP heartbeats.
class UdpWatch {
 public:
  void asked(int64_t now_ms);     // a datagram was sent that asks for an answer
  void answered(int64_t now_ms);  // a datagram has come, and the other side has received ours
  // A datagram was refused. While TCP is fine, a firewall has done it: UDP then counts as kNever until it works again.
  void refused(Tcp tcp);
  void taken_up() { refused_ = false, asked_ms_ = -1; }  // TCP is open again
  Udp state(int64_t now_ms) const;
  int64_t answered_ms() const { return answered_ms_; }  // -1: never

 private:
  bool refused_ = false, worked_ = false;
  int64_t asked_ms_ = -1;  // first unanswered datagram of the present series; -1: none
  int64_t last_asked_ms_ = -1;
  int64_t answered_ms_ = -1;
};

// The time from which no process of a learner can run any more, if its agent was given up as silent at now_ms.
// answered_ms: UdpWatch::answered_ms().
int64_t fence_until_ms(int64_t now_ms, int64_t answered_ms);

}  // namespace dl::protocol
