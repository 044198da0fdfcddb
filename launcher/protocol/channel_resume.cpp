// SPDX-License-Identifier: Apache-2.0
// Connects to dlrun again after the connection broke.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "common/base/clock.h"
#include "launcher/protocol/channel.h"
#include "launcher/protocol/connect_by.h"

namespace dl::protocol {
namespace {

constexpr int64_t kPauseMs = 50;  // between two tries
// For a connection to open. TCP would repeat a lost first packet only after a second, so a new try is faster.
constexpr int64_t kTryMs = 400;
constexpr int64_t kAnswerMs = 1000;  // for dlrun's answer over the new connection

}  // namespace

void Channel::open_session(const OpenSession& offer) {
  const auto own = parse_token(offer.token), dlruns = parse_token(offer.answer);
  if (!own || !dlruns) return;
  session_ = Session{offer, 0, 0};
  if (offer.udp_port > 0 && offer.udp_port <= 65535) beats_.open(*dlrun_, offer.udp_port, offer.session, *own, *dlruns);
}

void Channel::give_up() {
  fd_.reset();
  out_.clear();
  state_ = State::kClosed;
}

// by_end: the other side closed the connection in order. dlrun does that with agents that are to end, and its kernel
// when dlrun dies.
void Channel::lose(bool by_end) {
  if (state_ == State::kClosed) return;
  // An end in place of the answer means that dlrun does not know the session. An end that was expected is the last
  // thing that dlrun has to tell.
  if (!session_ || (by_end && (state_ == State::kResuming || end_expected_))) return give_up();
  if (state_ == State::kOpen) {
    if (lease_over(monotonic_ms())) return give_up();
    beats_.ask_anew(monotonic_ms());
    return connect_anew();
  }
  pause();
}

void Channel::pause() {
  fd_.reset();
  out_.clear();
  state_ = State::kPausing;
  next_ms_ = monotonic_ms() + kPauseMs;
}

void Channel::connect_anew() {
  out_.clear();
  splitter_ = LineSplitter(kMaxLineBytes);
  fd_.reset(::socket(dlrun_->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_) return pause();
  state_ = State::kConnecting;
  next_ms_ = monotonic_ms() + kTryMs;
  if (::connect(fd_.get(), dlrun_->ai_addr, dlrun_->ai_addrlen) == 0) return connected_anew();
  if (errno != EINPROGRESS) connection_failed(errno);
}

void Channel::connected_anew() {
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) return connection_failed(failure);
  prepare_socket(fd_.get());
  state_ = State::kResuming;
  next_ms_ = monotonic_ms() + kAnswerMs;
  // The job's secret is not sent: should another program have dlrun's port by now, it learns only the secret of this
  // session.
  out_ = encode(Resume{session_->offer.session, session_->offer.token, received_, ++session_->tries});
  write_pending();
}

// A dead dlrun's node refuses connections; but so may a firewall, while dlrun's datagrams still arrive.
void Channel::connection_failed(int failure) {
  beats_.read(monotonic_ms(), session_->link);
  if (failure == ECONNREFUSED && refusal_is_true(beats_.state(monotonic_ms()))) return give_up();
  pause();
}

bool Channel::resumed(const Resumed& answer) {
  if (!same_secret(answer.answer, session_->offer.answer) || !said_.acknowledge(answer.received)) return false;
  state_ = State::kOpen;
  session_->link = answer.link;
  beats_.taken_up();
  nothing_open_ms_ = monotonic_ms();
  out_ = said_.rest();
  write_pending();
  return true;
}

// Once the lease is over, nothing else matters: dlrun may have given this agent up, and may start its learner
// elsewhere.
bool Channel::lease_over(int64_t now_ms) const {
  return now_ms - std::max(acknowledged_ms_, beats_.acknowledged_ms()) > kAgentLeaseMs;
}

void Channel::tick_resume(int64_t now_ms) {
  if (lease_over(now_ms)) return give_up();
  if (now_ms < next_ms_) return;
  if (state_ == State::kPausing) {
    connect_anew();
  } else {
    pause();
  }
}

}  // namespace dl::protocol
