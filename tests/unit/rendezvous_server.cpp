// SPDX-License-Identifier: Apache-2.0
// The server over real sockets: several clients, hostile ones, one that does not read, and the end of the server.
#include "launcher/rendezvous/tcp_store_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "tests/unit/rendezvous_support.h"

namespace dl::rendezvous {
namespace {

using namespace test;

constexpr int kPatienceMs = 20000;  // never waited for in a good run

class Client {
 public:
  explicit Client(int port) : fd_(test::connection_to(port)) { connected = static_cast<bool>(fd_); }
  void send(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(fd_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += static_cast<size_t>(n);
    }
  }
  // Exactly so many bytes, fewer if the server has closed.
  std::string receive(size_t size) {
    std::string bytes(size, '\0');
    size_t have = 0;
    while (have < size) {
      pollfd fd{fd_.get(), POLLIN, 0};
      if (::poll(&fd, 1, kPatienceMs) <= 0) return "SILENT";
      const ssize_t n = ::recv(fd_.get(), bytes.data() + have, size - have, 0);
      if (n <= 0) break;
      have += static_cast<size_t>(n);
    }
    bytes.resize(have);
    return bytes;
  }
  bool cut_off() { return receive(1).empty(); }
  bool silent() {
    pollfd fd{fd_.get(), POLLIN, 0};
    return ::poll(&fd, 1, 20) == 0;
  }
  bool connected = false;

 private:
  UniqueFd fd_;
};

std::unique_ptr<TcpStoreServer> started(const ServeLimits& limits = {}) {
  auto server = TcpStoreServer::start(limits);
  EXPECT_TRUE(server);
  return server ? *std::move(server) : nullptr;
}

std::string set(const std::string& key, const std::string& value) {
  return type(Op::kSet) + text(key) + text(value);
}
std::string get(const std::string& key) {
  return type(Op::kGet) + text(key);
}
std::string wait(const std::string& key) {
  return type(Op::kWait) + list({key});
}

TEST(RendezvousServer, WhatOneClientSetsWakesAllWhoWait) {
  auto server = started();
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 300; ++i) {
    waiting.push_back(std::make_unique<Client>(server->port()));
    ASSERT_TRUE(waiting.back()->connected);
    waiting.back()->send(validate() + wait("/go"));
  }
  Client setter(server->port());
  setter.send(validate() + type(Op::kNumKeys));
  EXPECT_EQ(setter.receive(8), i64(0));
  EXPECT_TRUE(waiting[0]->silent());
  setter.send(set("/go", "now"));
  for (auto& client : waiting) ASSERT_EQ(client->receive(1), std::string(1, kStopWaiting));
  for (auto& client : waiting) client->send(get("/go"));
  for (auto& client : waiting) ASSERT_EQ(client->receive(8 + 3), text("now"));
}

TEST(RendezvousServer, OldAndNewClientsShareTheStore) {
  auto server = started();
  Client old_one(server->port()), new_one(server->port());
  old_one.send(type(0) + text("/k") + text("v") + type(6));
  EXPECT_EQ(old_one.receive(8), i64(1));
  new_one.send(validate() + wait("/k") + get("/k"));
  EXPECT_EQ(new_one.receive(1 + 9), std::string(1, kStopWaiting) + text("v"));
}

TEST(RendezvousServer, ATimeoutOfTheClientCancelsItsWait) {
  auto server = started();
  Client one(server->port()), other(server->port());
  one.send(validate() + wait("/late"));
  EXPECT_TRUE(one.silent());
  one.send(type(Op::kCancelWait));
  EXPECT_EQ(one.receive(1), std::string(1, kWaitCanceled));
  other.send(validate() + set("/late", "x") + type(Op::kNumKeys));
  EXPECT_EQ(other.receive(8), i64(1));
  EXPECT_TRUE(one.silent());
}

TEST(RendezvousServer, NothingIsReadBeforeTheCheckAllowsIt) {
  std::mutex mutex;
  std::vector<std::pair<Connection, std::function<void(bool)>>> asked;
  auto opened = TcpStoreServer::start({}, [&](const Connection& connection, std::function<void(bool)> answer) {
    const std::lock_guard<std::mutex> lock(mutex);
    asked.emplace_back(connection, std::move(answer));
  });
  ASSERT_TRUE(opened);
  auto server = *std::move(opened);
  const auto question = [&](size_t index) {
    for (int i = 0; i < kPatienceMs; ++i) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        if (asked.size() > index) return asked[index];
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::pair<Connection, std::function<void(bool)>>();
  };
  Client bad(server->port());
  bad.send(validate() + set("/k", "bad"));
  EXPECT_EQ(question(0).first.server_port, server->port());
  EXPECT_GT(question(0).first.client_port, 0);
  Client good(server->port());
  good.send(validate() + type(Op::kNumKeys));
  EXPECT_TRUE(good.silent());
  question(1).second(true);
  EXPECT_EQ(good.receive(8), i64(0)) << "what the other one sent was not served";
  question(0).second(false);
  EXPECT_TRUE(bad.cut_off());
  // An answer that comes when the client, or the server, is gone harms nobody.
  {
    Client gone(server->port());
    question(2);
  }
  Client last(server->port());
  const auto late = question(3).second;
  question(2).second(true);
  server.reset();
  late(true);
  EXPECT_TRUE(last.cut_off());
}

TEST(RendezvousServer, HostileClientsAreCutOffAndHarmNobody) {
  ServeLimits limits;
  limits.store_bytes = 1 << 20;
  auto server = started(limits);
  Client good(server->port());
  good.send(validate() + wait("/x"));
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), type(2) + i64(-1), validate() + type(77),
        validate() + type(Op::kMultiSet) + i64(-1), validate() + set("/big", std::string(2 << 20, 'x'))}) {
    Client bad(server->port());
    bad.send(bytes);
    EXPECT_TRUE(bad.cut_off());
  }
  {
    Client quits(server->port());
    quits.send(validate() + wait("/x"));
    Client cut(server->port());
    cut.send(validate() + type(Op::kSet) + text("/half"));
  }
  Client other(server->port());
  other.send(validate() + set("/x", "1") + type(Op::kNumKeys));
  EXPECT_EQ(other.receive(8), i64(1)) << "nothing of the hostile ones is stored";
  EXPECT_EQ(good.receive(1), std::string(1, kStopWaiting));
}

TEST(RendezvousServer, AClientThatDoesNotReadIsNotServedOnAndGetsAllOfItWhenItReads) {
  auto server = started();
  Client slow(server->port()), other(server->port());
  const std::string value(1 << 20, 'v');
  slow.send(validate() + set("/v", value));
  std::string requests;
  constexpr int kRequests = 64;  // 64 MiB of replies: more than the kernel's buffers hold
  for (int i = 0; i < kRequests; ++i) requests += get("/v");
  slow.send(requests + type(Op::kNumKeys));
  other.send(validate() + type(Op::kPing) + magic());
  EXPECT_EQ(other.receive(4), magic()) << "others are served meanwhile";
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(slow.receive(8 + value.size()), text(value)) << i;
  EXPECT_EQ(slow.receive(8), i64(1));
}

TEST(RendezvousServer, ItEndsWhileClientsWaitAndItsPortIsFreeAtOnce) {
  auto server = started();
  const int port = server->port();
  Client waiting(port), silent(port);
  waiting.send(validate() + wait("/never"));
  EXPECT_TRUE(waiting.silent());
  server.reset();
  EXPECT_TRUE(waiting.cut_off());
  EXPECT_TRUE(silent.cut_off());
  EXPECT_FALSE(Client(port).connected);
  auto another = started();
  EXPECT_TRUE(Client(another->port()).connected);
}

}  // namespace
}  // namespace dl::rendezvous
