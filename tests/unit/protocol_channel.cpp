// SPDX-License-Identifier: Apache-2.0
// An agent's channel and dlrun's control port, with a relay between them that breaks connections; datagrams go
// straight.
#include "launcher/protocol/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "launcher/supervise/control_server.h"
#include "tests/unit/rendezvous_support.h"

namespace dl::protocol {
namespace {

using supervise::ConnectionId;
using supervise::ControlServer;
using namespace std::chrono_literals;

// A clock that stands still while this thread could run and does not, as on a busy machine.
std::chrono::steady_clock::time_point own_time() {
  int64_t ran_ns = 0, waited_ns = 0;
  std::ifstream("/proc/thread-self/schedstat") >> ran_ns >> waited_ns;
  return std::chrono::steady_clock::now() - std::chrono::nanoseconds(waited_ns);
}

// Hands on what comes, on non-blocking sockets, for as long as it is called; resets both sides where it is told to.
class Relay {
 public:
  explicit Relay(int to) : to_(to) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), size);
    ::listen(listener_.get(), 10);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&any), &size);
    port_ = ntohs(any.sin_port);
  }
  int port() const { return port_; }
  void refuse() { listener_.reset(); }
  void work(size_t bytes_at_most) {
    if (listener_) {
      UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (client) {
        reset();
        client_ = std::move(client);
        server_ = rendezvous::test::connection_to(to_);
        ::fcntl(server_.get(), F_SETFL, O_NONBLOCK);
        ++connections;
      }
    }
    pass(client_, server_, bytes_at_most);
    pass(server_, client_, bytes_at_most);
  }
  // What is on the way is lost.
  void reset() {
    const linger at_once{1, 0};
    for (UniqueFd* fd : {&client_, &server_}) {
      if (*fd) ::setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      fd->reset();
    }
  }
  void reset_towards_dlrun() {
    const linger at_once{1, 0};
    ::setsockopt(server_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    server_.reset();
  }
  int connections = 0;

 private:
  void pass(const UniqueFd& from, const UniqueFd& to, size_t most) {
    std::vector<char> bytes(most);
    if (!from || !to) return;
    const ssize_t n = ::recv(from.get(), bytes.data(), most, 0);
    if (n > 0) {
      ::send(to.get(), bytes.data(), static_cast<size_t>(n), MSG_NOSIGNAL);
    } else if (n == 0 || errno != EAGAIN) {
      client_.reset();
      server_.reset();
    }
  }
  int to_, port_ = 0;
  UniqueFd listener_, client_, server_;
};

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);  // as dlrun does
    uv_loop_init(&loop);
    server = std::make_unique<ControlServer>(
        &loop, "secret",
        ControlServer::Handlers{[this](ConnectionId id, const Hello& hello) {
                                  connection = id;
                                  if (hello.sessions && offer) server->open_session(id);
                                },
                                [this](ConnectionId, const ControlMessage& message) {
                                  if (const auto* notice = std::get_if<Notice>(&message))
                                    at_dlrun.push_back(notice->signal);
                                },
                                [this](ConnectionId, const std::string&) { ++closed; },
                                [this](ConnectionId, const std::string&) { ++broken; },
                                [this](ConnectionId) { ++resumed; }, [this](ConnectionId) { ++refused; }});
    ASSERT_TRUE(server->listen());
    relay = std::make_unique<Relay>(server->port());
  }
  void TearDown() override {
    channel.reset();
    server->close_all();
    uv_run(&loop, UV_RUN_DEFAULT);
    server.reset();
    EXPECT_EQ(uv_loop_close(&loop), 0);
  }
  void connect() {
    channel = std::make_unique<Channel>();
    ASSERT_TRUE(channel->connect("127.0.0.1", relay->port(), 5s));
    Hello hello;
    hello.role = "agent";
    hello.secret = "secret";
    channel->greet(hello);
  }
  // True when it holds; all three work meanwhile.
  bool wait(const std::function<bool()>& condition, std::chrono::milliseconds limit = 10s) {
    const auto end = own_time() + limit;
    while (!condition()) {
      if (own_time() > end) return false;
      work();
    }
    return true;
  }
  void work(size_t bytes = 4096) {
    relay->work(bytes);
    if (!deaf) uv_run(&loop, UV_RUN_NOWAIT);
    if (!channel) return;
    pollfd fds[Channel::kWatched];
    channel->watch(fds);
    ::poll(fds, Channel::kWatched, 1);
    for (const ControlMessage& message : channel->handle(fds))
      if (const auto* signal = std::get_if<Signal>(&message)) at_agent.push_back(signal->signal);
    channel->tick();
  }
  // Until datagrams have gone both ways.
  bool both_ways() {
    return wait([this] { return server->answered_ms(connection) >= 0; });
  }
  static std::vector<int> numbers(int count) {
    std::vector<int> all;
    for (int i = 0; i < count; ++i) all.push_back(i);
    return all;
  }

  uv_loop_t loop{};
  std::unique_ptr<ControlServer> server;
  std::unique_ptr<Relay> relay;
  std::unique_ptr<Channel> channel;
  ConnectionId connection = 0;
  std::vector<int> at_dlrun, at_agent;
  int closed = 0, broken = 0, resumed = 0, refused = 0;
  bool offer = true, deaf = false;
};

TEST_F(ChannelTest, WhateverBreaksEachWordArrivesOnceAndInOrder) {
  connect();
  ASSERT_TRUE(both_ways());
  std::mt19937 random(7);
  const int count = 3000;
  for (int i = 0; i < count; ++i) {
    channel->send(Notice{i});
    server->send(connection, Signal{i});
    if (random() % 8 == 0) work(1 + random() % 200);
    if (random() % 60 == 0) relay->reset();
  }
  EXPECT_TRUE(wait([&] { return at_dlrun.size() >= count && at_agent.size() >= count; }));
  EXPECT_EQ(at_dlrun, numbers(count));
  EXPECT_EQ(at_agent, numbers(count));
  EXPECT_GT(resumed, 1) << "too little broke";
  EXPECT_EQ(closed, 0);
  EXPECT_FALSE(channel->closed());
}

TEST_F(ChannelTest, BothWaysWorkOverIPv6) {
  channel = std::make_unique<Channel>();
  if (!channel->connect("::1", server->port(), 1s)) GTEST_SKIP() << "no IPv6 here";
  Hello hello;
  hello.role = "agent";
  hello.secret = "secret";
  channel->greet(hello);
  ASSERT_TRUE(both_ways());
  channel.reset();
  ASSERT_TRUE(wait([&] { return broken == 1; }));
  server->probe(connection);
  EXPECT_TRUE(wait([&] { return refused > 0; }, 200ms));
  EXPECT_EQ(server->verdict(connection), Verdict::kAgentKilled);
}

TEST_F(ChannelTest, ALivingAgentIsWaitedForAndOneThatDiedIsKnownAtOnce) {
  connect();
  ASSERT_TRUE(both_ways());
  relay->reset();
  ASSERT_TRUE(wait([&] { return broken == 1; }));
  EXPECT_EQ(server->verdict(connection), Verdict::kWait);
  ASSERT_TRUE(wait([&] { return resumed == 1; }));
  EXPECT_EQ(server->verdict(connection), Verdict::kWell);
  channel.reset();
  relay->reset();
  ASSERT_TRUE(wait([&] { return broken == 2; }));
  server->probe(connection);
  ASSERT_TRUE(wait([&] { return refused > 0; }, 200ms)) << "the kernel says that nobody has the port";
  EXPECT_EQ(server->verdict(connection), Verdict::kAgentKilled);
}

TEST_F(ChannelTest, AConnectionThatDlrunAloneHasLostIsTakenUpWhenADatagramSaysSo) {
  connect();
  ASSERT_TRUE(both_ways());
  relay->reset_towards_dlrun();
  ASSERT_TRUE(wait([&] { return broken == 1; }));
  server->probe(connection);
  EXPECT_TRUE(wait([&] { return resumed == 1; }, 400ms));
}

TEST_F(ChannelTest, OneThatWasGivenUpEnds) {
  connect();
  ASSERT_TRUE(both_ways());
  server->close(connection);
  EXPECT_TRUE(wait([&] { return channel->closed(); }, 1s));
  EXPECT_EQ(resumed, 0);
}

TEST_F(ChannelTest, WhereDlrunIsGoneTheAgentEndsAtOnce) {
  connect();
  ASSERT_TRUE(both_ways());
  server->close_all();
  relay->refuse();
  relay->reset();
  EXPECT_TRUE(wait([&] { return channel->closed(); }, 200ms));
}

TEST_F(ChannelTest, AFirewallThatRefusesInDlrunsNameIsNotBelieved) {
  connect();
  ASSERT_TRUE(both_ways());
  relay->refuse();
  relay->reset();
  EXPECT_FALSE(wait([&] { return channel->closed(); }, 4s)) << "datagrams are answered, beyond the lease of one";
  deaf = true;  // now they are not either
  const auto began = own_time();
  EXPECT_TRUE(wait([&] { return channel->closed(); }, 3s));
  EXPECT_LT(own_time() - began, 2800ms);
}

TEST_F(ChannelTest, TheLeaseEndsWhereNothingIsAnswered) {
  connect();
  ASSERT_TRUE(both_ways());
  deaf = true;  // the kernel still takes connections
  relay->reset();
  const auto began = std::chrono::steady_clock::now();
  const auto own_began = own_time();
  EXPECT_TRUE(wait([&] { return channel->closed(); }, 5s));
  EXPECT_GT(std::chrono::steady_clock::now() - began, 1500ms);
  EXPECT_LT(own_time() - own_began, 2800ms);
}

TEST_F(ChannelTest, WithoutASessionABrokenConnectionIsTheEnd) {
  offer = false;
  connect();
  channel->send(Notice{0});
  ASSERT_TRUE(wait([&] { return at_dlrun.size() == 1; }));
  server->send(connection, Signal{0});
  ASSERT_TRUE(wait([&] { return at_agent.size() == 1; }));
  relay->reset();
  EXPECT_TRUE(wait([&] { return channel->closed() && closed == 1; }));
  EXPECT_EQ(broken + resumed, 0);
}

TEST_F(ChannelTest, StrangersTakeNoSessionAndDisturbNone) {
  connect();
  ASSERT_TRUE(both_ways());
  const std::string guess(32, '0');
  const std::string lines[] = {encode(Resume{connection, guess, 0, 99}),
                               encode(Resume{connection + 1, guess, 0, 99}),
                               encode(Resume{connection, "", 0, 99}),
                               encode(Resume{~uint64_t{0}, guess, ~uint64_t{0}, 0}),
                               R"({"type":"resume","session":-1})"
                               "\n",
                               R"({"type":"resume","session":"x"})"
                               "\n",
                               encode(OpenSession{connection, guess, guess, 1}),
                               encode(Resumed{guess, 0, 0})};
  for (const std::string& line : lines) {
    UniqueFd stranger = rendezvous::test::connection_to(server->port());
    ASSERT_EQ(::send(stranger.get(), line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
    char byte;
    ssize_t n = -1;
    ASSERT_TRUE(wait([&] { return (n = ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT)) >= 0 || errno != EAGAIN; }));
    EXPECT_EQ(n, 0) << "no answer: " << line;
  }
  EXPECT_EQ(broken + closed + resumed, 0);
  channel->send(Notice{0});
  EXPECT_TRUE(wait([&] { return at_dlrun.size() == 1; }));
}

}  // namespace
}  // namespace dl::protocol
