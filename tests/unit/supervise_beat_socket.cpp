// SPDX-License-Identifier: Apache-2.0
// dlrun's end of the heartbeats, with real sockets of this machine.
#include "launcher/supervise/beat_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "common/base/unique_fd.h"

namespace dl::supervise {
namespace {

using namespace protocol;

constexpr int kLongMs = 10'000;  // a datagram within a machine takes no time
constexpr Token kAgents = {1, 2, 3}, kDlruns = {9, 8, 7};

// An agent's end: a socket that is connected to this address and this port of dlrun.
class Agent {
 public:
  Agent(const char* address, int port) : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in dlrun{};
    dlrun.sin_family = AF_INET;
    dlrun.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, address, &dlrun.sin_addr);
    connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&dlrun), sizeof dlrun) == 0;
  }
  bool send(const void* data, size_t size) {
    return connected_ && ::send(fd_.get(), data, size, 0) == static_cast<ssize_t>(size);
  }
  bool send(Beat beat = {}) {
    beat.session = beat.session == 0 ? 77 : beat.session;
    ++beat.sequence;
    const BeatBytes bytes = encode_beat(beat, kAgents);
    return send(bytes.data(), bytes.size());
  }
  std::optional<HeardBeat> hear() {
    pollfd comes{fd_.get(), POLLIN, 0};
    uint8_t bytes[2 * kBeatBytes];
    if (::poll(&comes, 1, kLongMs) != 1) return std::nullopt;
    const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    return n < 0 ? std::nullopt : decode_beat(bytes, static_cast<size_t>(n));
  }
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  bool connected_ = false;
};

Beat probe() {
  Beat beat;
  beat.kind = Beat::Kind::kProbe;
  beat.session = 77;
  beat.sequence = 1;
  return beat;
}

class BeatSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(uv_loop_init(&loop_), 0);
    ASSERT_EQ(uv_timer_init(&loop_, &late_), 0);
    const Status opened = socket_.open();
    ASSERT_TRUE(opened) << opened.error().text;
    ASSERT_GT(socket_.port(), 0);
  }
  void TearDown() override {
    socket_.close();
    uv_close(reinterpret_cast<uv_handle_t*>(&late_), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
  }
  // Runs the loop until so many beats have come and so many datagrams were refused.
  void run_until(size_t heard, size_t refused) {
    bool over = false;
    late_.data = &over;
    uv_timer_start(
        &late_, [](uv_timer_t* timer) { *static_cast<bool*>(timer->data) = true; }, kLongMs, 0);
    while (!over && (heard_.size() < heard || refused_.size() < refused)) uv_run(&loop_, UV_RUN_ONCE);
    uv_timer_stop(&late_);
  }

  uv_loop_t loop_{};
  uv_timer_t late_{};
  std::vector<HeardBeat> heard_;
  std::vector<BeatPeer> from_, refused_;
  BeatSocket socket_{&loop_,
                     {[this](const HeardBeat& beat, const BeatPeer& from) {
                        heard_.push_back(beat);
                        from_.push_back(from);
                      },
                      [this](const BeatPeer& to) { refused_.push_back(to); }}};
};

TEST_F(BeatSocketTest, HandsOnWholeDatagramsAndNothingElse) {
  Agent agent("127.0.0.1", socket_.port());
  Beat beat;
  beat.session = 78;
  beat.sequence = 4;
  beat.echo = 3;
  const BeatBytes bytes = encode_beat(beat, kAgents);
  ASSERT_TRUE(agent.send("x", 1));
  ASSERT_TRUE(agent.send(bytes.data(), bytes.size() - 1));
  uint8_t longer[kBeatBytes + 1] = {};
  std::copy(bytes.begin(), bytes.end(), longer);
  ASSERT_TRUE(agent.send(longer, sizeof longer));
  ASSERT_TRUE(agent.send(beat));
  run_until(1, 0);
  ASSERT_EQ(heard_.size(), 1U);
  EXPECT_EQ(heard_[0].beat.session, 78U);
  EXPECT_EQ(heard_[0].beat.sequence, 5U);
  EXPECT_EQ(heard_[0].beat.echo, 3U);
  EXPECT_EQ(heard_[0].token, kAgents);
}

TEST_F(BeatSocketTest, AnAnswerComesFromTheAddressThatWasAsked) {
  // The whole of 127.0.0.0/8 is this machine. Without care the answer would be sent from 127.0.0.1, and the agent's
  // socket would not receive it.
  for (const char* address : {"127.0.0.1", "127.0.0.3"}) {
    Agent agent(address, socket_.port());
    ASSERT_TRUE(agent.send());
    const size_t before = heard_.size();
    run_until(before + 1, 0);
    ASSERT_EQ(heard_.size(), before + 1);
    if (!from_.back().own_known) GTEST_SKIP() << "this machine has no IPv6, and so no socket for both";
    Beat answer;
    answer.kind = Beat::Kind::kAnswer;
    answer.session = 77;
    answer.sequence = 1;
    answer.echo = 12;
    socket_.send(answer, kDlruns, from_.back());
    const auto heard = agent.hear();
    ASSERT_TRUE(heard) << address;
    EXPECT_EQ(heard->beat.kind, Beat::Kind::kAnswer);
    EXPECT_EQ(heard->beat.echo, 12U);
    EXPECT_EQ(heard->token, kDlruns);
  }
}

TEST_F(BeatSocketTest, TwoAgentsOfOneMachineAreTwoPeers) {
  Agent one("127.0.0.1", socket_.port()), two("127.0.0.1", socket_.port());
  ASSERT_TRUE(one.send());
  run_until(1, 0);
  ASSERT_TRUE(two.send());
  run_until(2, 0);
  ASSERT_TRUE(one.send());
  run_until(3, 0);
  ASSERT_EQ(from_.size(), 3U);
  EXPECT_TRUE(same_peer(from_[0], from_[2]));
  EXPECT_FALSE(same_peer(from_[0], from_[1])) << "another port";
  EXPECT_FALSE(same_peer(BeatPeer{}, BeatPeer{})) << "neither is known";
}

TEST_F(BeatSocketTest, ARefusalIsToldOfThePeerThatHasNoProcessAnyMore) {
  Agent lives("127.0.0.1", socket_.port()), dies("127.0.0.1", socket_.port());
  ASSERT_TRUE(lives.send());
  run_until(1, 0);
  ASSERT_TRUE(dies.send());
  run_until(2, 0);
  ASSERT_EQ(from_.size(), 2U);
  dies.close();
  // Twice: after the first, the socket has an error to report, and is still heard.
  for (size_t round = 1; round <= 2; ++round) {
    socket_.send(probe(), kDlruns, from_[1]);
    run_until(0, round);
    ASSERT_EQ(refused_.size(), round);
    EXPECT_TRUE(same_peer(refused_.back(), from_[1]));
  }
  socket_.send(probe(), kDlruns, from_[0]);
  EXPECT_TRUE(lives.hear());
  ASSERT_TRUE(lives.send());
  run_until(3, 0);
  EXPECT_EQ(heard_.size(), 3U);
  EXPECT_EQ(refused_.size(), 2U);
}

TEST_F(BeatSocketTest, OneThatIsClosedSendsNothingAndCanBeOpenedAnew) {
  Agent agent("127.0.0.1", socket_.port());
  ASSERT_TRUE(agent.send());
  socket_.read();  // without the loop
  ASSERT_EQ(heard_.size(), 1U);
  const int port = socket_.port();
  socket_.close();
  EXPECT_EQ(socket_.port(), 0);
  socket_.send(probe(), kDlruns, from_[0]);
  socket_.send(probe(), kDlruns, BeatPeer{});
  socket_.read();
  socket_.close();
  // Nobody has the port: what is sent there is refused.
  pollfd refused{-1, POLLERR, 0};
  UniqueFd asks(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in old{};
  old.sin_family = AF_INET;
  old.sin_port = htons(static_cast<uint16_t>(port));
  old.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(asks.get(), reinterpret_cast<const sockaddr*>(&old), sizeof old), 0);
  ASSERT_EQ(::send(asks.get(), "x", 1, 0), 1);
  refused.fd = asks.get();
  EXPECT_EQ(::poll(&refused, 1, kLongMs), 1);
  ASSERT_TRUE(socket_.open());
  Agent again("127.0.0.1", socket_.port());
  ASSERT_TRUE(again.send());
  run_until(2, 0);
  EXPECT_EQ(heard_.size(), 2U);
}

}  // namespace
}  // namespace dl::supervise
