// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/two_ways.h"

#include <algorithm>

namespace dl::protocol {
namespace {

// How long, after dlrun has noticed the loss of the TCP connection, an agent may still take to end its learner because
// of it. dlrun notices the loss when data was not acknowledged for 2 s (control_server.cpp), the agent when its own
// data, of which it sends some each half second, was not acknowledged for 2.5 s (connect_by.cpp); a killed learner is
// gone within 0.1 s.
constexpr int64_t kTcpFenceMs = 1250;
constexpr int64_t kKillMs = 250;  // for an agent to notice that its lease is over, and to end its learner

}  // namespace

Verdict judge(Tcp tcp, Udp udp, int64_t away_ms) {
  constexpr auto kWell = Verdict::kWell, kWait = Verdict::kWait, kKilled = Verdict::kAgentKilled,
                 kLost = Verdict::kNodeLost;
  constexpr Verdict kTable[3][5] = {
      // answers, asked, silent, refused, never worked
      {kWell, kWell, kWell, kWell, kWell},        // fine
      {kWait, kWait, kLost, kKilled, kLost},      // unacknowledged
      {kWait, kWait, kKilled, kKilled, kKilled},  // closed or reset
  };
  const Verdict verdict = kTable[static_cast<int>(tcp)][static_cast<int>(udp)];
  return verdict == kWait && away_ms >= kWayLimitMs ? Verdict::kWayBroken : verdict;
}

bool refusal_is_true(Udp udp) {
  return udp != Udp::kAnswers && udp != Udp::kAsked;
}

void UdpWatch::asked(int64_t now_ms) {
  if (asked_ms_ < 0 || now_ms - last_asked_ms_ > kRowMs) asked_ms_ = now_ms;
  last_asked_ms_ = now_ms;
}

void UdpWatch::answered(int64_t now_ms) {
  worked_ = true;
  refused_ = false;
  asked_ms_ = -1;
  answered_ms_ = now_ms;
}

void UdpWatch::refused(Tcp tcp) {
  if (tcp == Tcp::kFine) {
    worked_ = false;
  } else {
    refused_ = true;
  }
}

Udp UdpWatch::state(int64_t now_ms) const {
  if (!worked_) return Udp::kNever;
  if (refused_) return Udp::kRefused;
  if (asked_ms_ < 0) return Udp::kAnswers;
  return now_ms - asked_ms_ < kProbeLimitMs ? Udp::kAsked : Udp::kSilent;
}

int64_t fence_until_ms(int64_t now_ms, int64_t answered_ms) {
  const int64_t by_tcp = now_ms + kTcpFenceMs;
  return answered_ms < 0 ? by_tcp : std::max(by_tcp, answered_ms + kAgentLeaseMs + kKillMs);
}

}  // namespace dl::protocol
