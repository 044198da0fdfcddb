// SPDX-License-Identifier: Apache-2.0
// A connection to dlrun that broke is taken up again.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "common/base/clock.h"
#include "launcher/protocol/channel.h"
#include "launcher/protocol/connect_by.h"

namespace dl::agent {
namespace {

constexpr int64_t kPauseMs = 50;     // between two tries
constexpr int64_t kTryMs = 400;      // for a connection to be there; a first packet that is lost is not waited for
constexpr int64_t kAnswerMs = 1000;  // for dlrun to answer on it

}  // namespace

void Channel::open_session(const supervise::OpenSession& offer) {
  const auto own = supervise::parse_token(offer.token), dlruns = supervise::parse_token(offer.answer);
  if (!own || !dlruns) return;
  session_ = Session{offer, 0, 0};
  if (offer.udp_port > 0 && offer.udp_port <= 65535) beats_.open(*dlrun_, offer.udp_port, offer.session, *own, *dlruns);
}

void Channel::give_up() {
  fd_.reset();
  out_.clear();
  state_ = State::kClosed;
}

// by_end: dlrun's side closed it in order, as it does with agents that are to end, and as its kernel does when it dies.
void Channel::lose(bool by_end) {
  if (state_ == State::kClosed) return;
  // Before the answer: no such session. Else dlrun's way to say that it was all.
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
  splitter_ = supervise::LineSplitter(supervise::kMaxLineBytes);
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
  // Without the job's secret: should another program have dlrun's port by now, it learns what this session alone is
  // good for.
  out_ = supervise::encode(
      supervise::Resume{session_->offer.session, session_->offer.token, received_, ++session_->tries});
  write_pending();
}

// A dlrun that is dead refuses connections; so does a firewall in its name, while its datagrams still come.
void Channel::connection_failed(int failure) {
  beats_.read(monotonic_ms(), session_->link);
  if (failure == ECONNREFUSED && supervise::refusal_is_true(beats_.state(monotonic_ms()))) return give_up();
  pause();
}

bool Channel::resumed(const supervise::Resumed& answer) {
  if (!supervise::same_secret(answer.answer, session_->offer.answer) || !said_.acknowledge(answer.received))
    return false;
  state_ = State::kOpen;
  session_->link = answer.link;
  beats_.taken_up();
  nothing_open_ms_ = monotonic_ms();
  out_ = said_.rest();
  write_pending();
  return true;
}

// Whatever is tried: dlrun may by then have given us up, and start this learner elsewhere.
bool Channel::lease_over(int64_t now_ms) const {
  return now_ms - std::max(acknowledged_ms_, beats_.acknowledged_ms()) > supervise::kAgentLeaseMs;
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

}  // namespace dl::agent
