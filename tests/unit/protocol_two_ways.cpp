// SPDX-License-Identifier: Apache-2.0
// What two ways tell together, and what is kept for the other side of a session: tables, without a socket.
#include "launcher/protocol/two_ways.h"

#include <gtest/gtest.h>

#include "launcher/protocol/heartbeat.h"
#include "launcher/protocol/session_buffer.h"
#include "launcher/supervise/agent_session.h"

namespace dl::supervise {
namespace {

using namespace protocol;

TEST(TwoWaysTest, WhatBothTellDecides) {
  struct Row {
    Tcp tcp;
    Udp udp;
    Verdict verdict;
  };
  const Row table[] = {
      {Tcp::kFine, Udp::kAnswers, Verdict::kWell},
      {Tcp::kFine, Udp::kAsked, Verdict::kWell},
      {Tcp::kFine, Udp::kSilent, Verdict::kWell},
      {Tcp::kFine, Udp::kRefused, Verdict::kWell},
      {Tcp::kFine, Udp::kNever, Verdict::kWell},
      {Tcp::kUnacknowledged, Udp::kAnswers, Verdict::kWait},
      {Tcp::kUnacknowledged, Udp::kAsked, Verdict::kWait},
      {Tcp::kUnacknowledged, Udp::kSilent, Verdict::kNodeLost},
      {Tcp::kUnacknowledged, Udp::kRefused, Verdict::kAgentKilled},
      {Tcp::kUnacknowledged, Udp::kNever, Verdict::kNodeLost},
      {Tcp::kClosed, Udp::kAnswers, Verdict::kWait},
      {Tcp::kClosed, Udp::kAsked, Verdict::kWait},
      {Tcp::kClosed, Udp::kSilent, Verdict::kAgentKilled},
      {Tcp::kClosed, Udp::kRefused, Verdict::kAgentKilled},
      {Tcp::kClosed, Udp::kNever, Verdict::kAgentKilled},
  };
  for (const Row& row : table) {
    const std::string what =
        std::to_string(static_cast<int>(row.tcp)) + "," + std::to_string(static_cast<int>(row.udp));
    EXPECT_EQ(judge(row.tcp, row.udp, 0), row.verdict) << what;
    EXPECT_EQ(judge(row.tcp, row.udp, kWayLimitMs - 1), row.verdict) << what;
    const Verdict late = row.verdict == Verdict::kWait ? Verdict::kWayBroken : row.verdict;
    EXPECT_EQ(judge(row.tcp, row.udp, kWayLimitMs), late) << what;
  }
}

TEST(TwoWaysTest, ARefusedConnectionIsBelievedWhereNoDatagramSaysOtherwise) {
  EXPECT_TRUE(refusal_is_true(Udp::kNever));
  EXPECT_TRUE(refusal_is_true(Udp::kRefused));
  EXPECT_TRUE(refusal_is_true(Udp::kSilent));
  EXPECT_FALSE(refusal_is_true(Udp::kAsked));
  EXPECT_FALSE(refusal_is_true(Udp::kAnswers));
}

TEST(TwoWaysTest, AWayThatNeverWorkedSaysNothing) {
  UdpWatch watch;
  EXPECT_EQ(watch.state(0), Udp::kNever);
  watch.asked(0);
  watch.refused(Tcp::kClosed);
  EXPECT_EQ(watch.state(1000), Udp::kNever) << "a firewall may refuse as well";
}

TEST(TwoWaysTest, SilenceIsAQuestionThatWasRepeatedAndNotAnswered) {
  UdpWatch watch;
  watch.answered(0);
  EXPECT_EQ(watch.state(100'000), Udp::kAnswers) << "nobody has asked";
  watch.asked(100'000);
  EXPECT_EQ(watch.state(100'000 + kProbeLimitMs - 1), Udp::kAsked);
  EXPECT_EQ(watch.state(100'000 + kProbeLimitMs), Udp::kSilent);
  watch.asked(100'200);
  EXPECT_EQ(watch.state(100'000 + kProbeLimitMs), Udp::kSilent) << "asking again does not begin anew";
  watch.answered(100'400);
  EXPECT_EQ(watch.state(100'500), Udp::kAnswers);
  watch.asked(200'000);
  watch.asked(300'000);
  EXPECT_EQ(watch.state(300'001), Udp::kAsked) << "a datagram that was lost long ago says nothing";
}

TEST(TwoWaysTest, ARefusalIsTheProcessOnlyWhereItsConnectionIsGoneToo) {
  UdpWatch watch;
  watch.answered(0);
  watch.refused(Tcp::kClosed);
  EXPECT_EQ(watch.state(1), Udp::kRefused);
  watch.taken_up();
  EXPECT_EQ(watch.state(2), Udp::kAnswers);
  watch.refused(Tcp::kFine);
  EXPECT_EQ(watch.state(3), Udp::kNever) << "a firewall that came later";
  watch.answered(4);
  EXPECT_EQ(watch.state(5), Udp::kAnswers);
}

TEST(TwoWaysTest, TheFenceOutlastsTheLeaseOnEitherWay) {
  EXPECT_EQ(fence_until_ms(10'000, -1), 11'250);
  EXPECT_EQ(fence_until_ms(10'000, 2'000), 11'250) << "silent for long";
  for (int64_t answered : {8'600, 9'700, 10'000})
    EXPECT_GT(fence_until_ms(10'000, answered), answered + kAgentLeaseMs) << answered;
}

TEST(SessionBufferTest, WhatIsNotAcknowledgedIsSaidAgain) {
  SessionBuffer buffer;
  for (const char* line : {"one\n", "two\n", "three\n"}) buffer.add(line);
  EXPECT_EQ(buffer.rest(), "one\ntwo\nthree\n");
  EXPECT_TRUE(buffer.acknowledge(2));
  EXPECT_EQ(buffer.rest(), "three\n");
  EXPECT_TRUE(buffer.acknowledge(1)) << "said late, and known already";
  EXPECT_EQ(buffer.rest(), "three\n");
  EXPECT_FALSE(buffer.can_repeat(1));
  EXPECT_TRUE(buffer.can_repeat(2));
  EXPECT_TRUE(buffer.can_repeat(3));
  EXPECT_FALSE(buffer.can_repeat(4));
  EXPECT_FALSE(buffer.acknowledge(4)) << "more than was said";
  EXPECT_TRUE(buffer.acknowledge(3));
  EXPECT_TRUE(buffer.empty());
}

TEST(SessionBufferTest, BeyondItsLimitItForgetsAndSaysSo) {
  SessionBuffer buffer(10);
  buffer.add("12345\n");
  EXPECT_TRUE(buffer.can_repeat(0));
  buffer.add("12345\n");
  EXPECT_TRUE(buffer.empty());
  EXPECT_FALSE(buffer.can_repeat(0));
  EXPECT_FALSE(buffer.can_repeat(1));
  EXPECT_TRUE(buffer.can_repeat(2));
  buffer.add("7\n");
  EXPECT_EQ(buffer.rest(), "7\n");
  EXPECT_TRUE(buffer.acknowledge(1)) << "of what was forgotten";
  EXPECT_TRUE(buffer.acknowledge(3));
}

TEST(HeartbeatTest, WhatWasSaidIsHeardAndNothingElse) {
  Token token;
  for (size_t i = 0; i < token.size(); ++i) token[i] = static_cast<uint8_t>(i + 1);
  const Beat beat{Beat::Kind::kProbe, false, 0xABCD, 0x1122334455667788, 99, 98};
  BeatBytes bytes = encode_beat(beat, token);
  auto heard = decode_beat(bytes.data(), bytes.size());
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->beat.kind, beat.kind);
  EXPECT_EQ(heard->beat.connected, beat.connected);
  EXPECT_EQ(heard->beat.link, beat.link);
  EXPECT_EQ(heard->beat.session, beat.session);
  EXPECT_EQ(heard->beat.sequence, beat.sequence);
  EXPECT_EQ(heard->beat.echo, beat.echo);
  EXPECT_TRUE(same_token(heard->token, token));
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_beat(bytes.data(), size)) << size;
  std::array<uint8_t, kBeatBytes + 1> longer{};
  std::copy(bytes.begin(), bytes.end(), longer.begin());
  EXPECT_FALSE(decode_beat(longer.data(), longer.size()));
  for (size_t at = 0; at < 4; ++at) {
    BeatBytes other = bytes;
    other[at] ^= 1;
    EXPECT_FALSE(decode_beat(other.data(), other.size())) << at;
  }
  for (uint8_t kind : {0, 5, 255}) {
    BeatBytes other = bytes;
    other[4] = kind;
    EXPECT_FALSE(decode_beat(other.data(), other.size()));
  }
  BeatBytes nothing = encode_beat(Beat{}, token);
  EXPECT_FALSE(decode_beat(nothing.data(), nothing.size())) << "sequences begin with 1";
}

TEST(HeartbeatTest, Tokens) {
  auto token = parse_token("00ff10a0000000000000000000000001");
  ASSERT_TRUE(token);
  EXPECT_EQ((*token)[1], 0xFF);
  EXPECT_EQ((*token)[15], 1);
  for (const char* text : {"", "00", "00FF10a0000000000000000000000001", "00ff10a000000000000000000000000x",
                           "00ff10a00000000000000000000000011"})
    EXPECT_FALSE(parse_token(text)) << text;
  Token other = *token;
  EXPECT_TRUE(same_token(other, *token));
  other[15] ^= 0x80;
  EXPECT_FALSE(same_token(other, *token));
}

class AgentSessionTest : public ::testing::Test {
 protected:
  AgentSession session = *AgentSession::open(7, 4711);
  Resume resume() const { return {7, session.offer().token, 0, 1}; }
  HeardBeat beat(uint64_t sequence, uint64_t echo, Beat::Kind kind = Beat::Kind::kBeat) const {
    return {{kind, true, 0, 7, sequence, echo}, parse_token(session.offer().token).value_or(Token{})};
  }
  bool hear(const HeardBeat& heard, int64_t now_ms = 0) {
    answer.reset();
    return session.hear(heard, peer, now_ms, &answer);
  }
  BeatPeer peer;
  std::optional<Beat> answer;
};

TEST_F(AgentSessionTest, OnlyItsAgentTakesItUpAndOnlyByAYoungerConnection) {
  session.said().add("a\n");
  EXPECT_TRUE(session.may_resume(resume()));
  Resume other = resume();
  other.token.back() = other.token.back() == '0' ? '1' : '0';
  EXPECT_FALSE(session.may_resume(other));
  other = resume();
  other.token = session.offer().answer;
  EXPECT_FALSE(session.may_resume(other)) << "what dlrun shows is no agent's word";
  other.token.clear();
  EXPECT_FALSE(session.may_resume(other));
  other = resume();
  other.tries = 0;
  EXPECT_FALSE(session.may_resume(other));
  other = resume();
  other.received = 2;
  EXPECT_FALSE(session.may_resume(other)) << "more than was said";
  other = resume();
  other.tries = 5;
  session.lost(Tcp::kClosed, 0);
  const Resumed resumed = session.resume(other);
  EXPECT_EQ(resumed.answer, session.offer().answer);
  EXPECT_EQ(resumed.link, 1);
  EXPECT_EQ(session.tcp(), Tcp::kFine);
  for (uint64_t tries : {0, 1, 4, 5}) {
    other.tries = tries;
    EXPECT_FALSE(session.may_resume(other)) << "an older connection that comes late";
  }
  other.tries = 6;
  EXPECT_TRUE(session.may_resume(other));
}

TEST_F(AgentSessionTest, WhatWasForgottenCannotBeTakenUp) {
  session.said() = SessionBuffer(4);
  session.said().add("more than four\n");
  EXPECT_FALSE(session.may_resume(resume()));
}

TEST_F(AgentSessionTest, ForgedAndOldDatagramsAreNotHeard) {
  HeardBeat forged = beat(1, 0);
  forged.token[0] ^= 1;
  EXPECT_FALSE(hear(forged));
  EXPECT_FALSE(hear(beat(1, 0, Beat::Kind::kAnswer))) << "dlrun's own";
  EXPECT_FALSE(hear(beat(1, 0, Beat::Kind::kProbe)));
  EXPECT_FALSE(hear(beat(1, 1))) << "nothing was sent yet";
  EXPECT_FALSE(answer);
  EXPECT_TRUE(hear(beat(5, 0)));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Beat::Kind::kAnswer);
  EXPECT_EQ(answer->echo, 5U);
  EXPECT_FALSE(hear(beat(5, 0)));
  EXPECT_FALSE(hear(beat(4, 0)));
  EXPECT_TRUE(hear(beat(6, 0, Beat::Kind::kAlive)));
  EXPECT_FALSE(answer) << "an answer is not answered";
}

TEST_F(AgentSessionTest, AWayWorksWhereWordsGoBothWays) {
  EXPECT_TRUE(hear(beat(1, 0), 10));
  EXPECT_EQ(session.watch().answered_ms(), -1);
  session.lost(Tcp::kClosed, 20);
  EXPECT_EQ(session.verdict(20), Verdict::kAgentKilled);
  EXPECT_TRUE(hear(beat(2, 1), 30));
  EXPECT_EQ(session.watch().answered_ms(), 30);
  EXPECT_EQ(session.verdict(40), Verdict::kWait);
  EXPECT_FALSE(session.probe(40).connected);
  EXPECT_EQ(session.verdict(40 + kProbeLimitMs), Verdict::kAgentKilled);
  EXPECT_TRUE(hear(beat(3, 2, Beat::Kind::kAlive), 500));
  EXPECT_EQ(session.verdict(510), Verdict::kWait);
  EXPECT_EQ(session.verdict(20 + kWayLimitMs), Verdict::kWayBroken);
}

}  // namespace
}  // namespace dl::supervise
