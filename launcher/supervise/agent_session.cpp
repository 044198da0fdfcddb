// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/agent_session.h"

namespace dl::supervise {

using namespace protocol;

Result<AgentSession> AgentSession::open(uint64_t number, int udp_port) {
  AgentSession session;
  session.offer_.session = number;
  session.offer_.udp_port = udp_port;
  DL_TRY_ASSIGN(session.offer_.token, make_secret());
  DL_TRY_ASSIGN(session.offer_.answer, make_secret());
  session.token_ = parse_token(session.offer_.token).value_or(Token{});
  session.answer_ = parse_token(session.offer_.answer).value_or(Token{});
  return session;
}

void AgentSession::lost(Tcp how, int64_t now_ms) {
  tcp_ = how;
  lost_ms_ = now_ms;
}

bool AgentSession::may_resume(const Resume& resume) const {
  return same_secret(resume.token, offer_.token) && resume.tries > tries_ && said_.can_repeat(resume.received);
}

Resumed AgentSession::resume(const Resume& resume) {
  tries_ = resume.tries;
  ++link_;
  tcp_ = Tcp::kFine;
  watch_.taken_up();
  said_.acknowledge(resume.received);
  return {offer_.answer, received_, link_};
}

bool AgentSession::hear(const HeardBeat& heard, const BeatPeer& from, int64_t now_ms, std::optional<Beat>* answer) {
  const Beat::Kind kind = heard.beat.kind;
  if ((kind != Beat::Kind::kBeat && kind != Beat::Kind::kAlive) || !same_token(heard.token, token_) ||
      heard.beat.sequence <= heard_ || heard.beat.echo > sent_)
    return false;
  heard_ = heard.beat.sequence;
  peer_ = from;
  // A beat that echoes none of ours proves only one direction of the connection, so it does not count as an answer.
  if (heard.beat.echo > 0) watch_.answered(now_ms);
  if (kind == Beat::Kind::kBeat) *answer = next(Beat::Kind::kAnswer);
  return true;
}

Beat AgentSession::probe(int64_t now_ms) {
  watch_.asked(now_ms);
  return next(Beat::Kind::kProbe);
}

Beat AgentSession::next(Beat::Kind kind) {
  Beat beat;
  beat.kind = kind;
  beat.connected = tcp_ == Tcp::kFine;
  beat.link = link_;
  beat.session = offer_.session;
  beat.sequence = ++sent_;
  beat.echo = heard_;
  return beat;
}

}  // namespace dl::supervise
