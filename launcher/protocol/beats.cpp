// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/beats.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dl::protocol {
namespace {

// At the slow rate, 10,000 agents send dlrun 2,000 datagrams a second.
constexpr int64_t kSeldomMs = 5000, kFirstMs = 500, kAnxiousMs = 100;
constexpr int kFirstTries = 8;  // quick beats at the beginning, for a network that loses some
constexpr int kAtOnce = 64;     // datagrams that are read before other work is done
// A dying process closes its highest descriptors first. dlrun asks by UDP when the TCP connection has ended, and should
// find this port closed by then.
constexpr int kHighDescriptor = 200;

}  // namespace

void Beats::open(const addrinfo& dlrun, int port, uint64_t session, const Token& own, const Token& dlruns) {
  UniqueFd fd(::socket(dlrun.ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage address{};
  if (!fd || dlrun.ai_addrlen > sizeof address) return;
  std::memcpy(&address, dlrun.ai_addr, dlrun.ai_addrlen);
  const uint16_t network_port = htons(static_cast<uint16_t>(port));
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = network_port;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = network_port;
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), dlrun.ai_addrlen) != 0) return;
  UniqueFd high(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kHighDescriptor));
  fd_ = high ? std::move(high) : std::move(fd);
  session_ = session;
  own_ = own;
  dlruns_ = dlruns;
}

void Beats::tick(int64_t now_ms, bool anxious) {
  const bool first = acknowledged_ms_ < 0 && unanswered_ < kFirstTries;
  const int64_t each = anxious ? kAnxiousMs : first ? kFirstMs : kSeldomMs;
  if (last_beat_ms_ < 0 || now_ms - last_beat_ms_ >= each) beat(now_ms);
}

void Beats::ask_anew(int64_t now_ms) {
  watch_.taken_up();
  beat(now_ms);
}

void Beats::beat(int64_t now_ms) {
  if (!fd_) return;
  last_beat_ms_ = now_ms;
  ++unanswered_;
  watch_.asked(now_ms);
  send(Beat::Kind::kBeat, now_ms);
}

void Beats::send(Beat::Kind kind, int64_t now_ms) {
  Beat beat;
  beat.kind = kind;
  beat.session = session_;
  beat.sequence = ++sequence_;
  beat.echo = heard_;
  // dlrun does not count a beat of an agent that has not heard from it (AgentSession::hear), so such a beat renews no
  // lease.
  if (heard_ > 0) sent_[sequence_ % sent_.size()] = {sequence_, now_ms};
  const BeatBytes bytes = encode_beat(beat, own_);
  // send() may fail with the error of an earlier datagram, so that a second try is needed.
  for (int i = 0; i < 2; ++i) {
    if (::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0 || errno == EAGAIN) return;
    if (errno == ECONNREFUSED) refused();
  }
}

void Beats::acknowledge(uint64_t sequence) {
  const Sent& sent = sent_[sequence % sent_.size()];
  if (sequence > 0 && sent.sequence == sequence) acknowledged_ms_ = std::max(acknowledged_ms_, sent.at_ms);
}

bool Beats::read(int64_t now_ms, uint16_t link) {
  bool closed_there = false;
  for (int i = 0; fd_ && i < kAtOnce; ++i) {
    uint8_t bytes[kBeatBytes + 1];
    const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      if (errno == ECONNREFUSED) refused();
      continue;
    }
    const auto heard = decode_beat(bytes, static_cast<size_t>(n));
    if (!heard || heard->beat.session != session_ || !same_token(heard->token, dlruns_) ||
        heard->beat.sequence <= heard_ || heard->beat.echo > sequence_)
      continue;
    const bool first = heard_ == 0;
    heard_ = heard->beat.sequence;
    acknowledge(heard->beat.echo);
    closed_there = !heard->beat.connected && heard->beat.link == link;
    if (heard->beat.kind == Beat::Kind::kProbe) {
      send(Beat::Kind::kAlive, now_ms);
    } else if (heard->beat.kind == Beat::Kind::kAnswer) {
      watch_.answered(now_ms);
      unanswered_ = 0;
      if (first) beat(now_ms);  // tells dlrun at once that its datagrams arrive
    }
  }
  return closed_there;
}

}  // namespace dl::protocol
