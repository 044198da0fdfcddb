// SPDX-License-Identifier: Apache-2.0
// Horovod's rendezvous: the store by itself, and its server over real sockets.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "launcher/rendezvous/http_store_server.h"
#include "launcher/rendezvous/key_value.h"
#include "tests/unit/rendezvous_support.h"

namespace dl::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;

TEST(KeyValue, PutGetDelete) {
  KeyValueStore store;
  EXPECT_EQ(store.handle("GET", "/global/0", "").status, 404);
  EXPECT_EQ(store.handle("PUT", "/global/0", "one").status, 200);
  EXPECT_EQ(store.handle("PUT", "/global/0", std::string("tw\0o", 4)).status, 200);
  EXPECT_EQ(store.handle("GET", "/global/0", "").body, std::string("tw\0o", 4));
  EXPECT_EQ(store.handle("GET", "/local_n1/0", "").status, 404) << "scopes are apart";
  EXPECT_EQ(store.handle("DELETE", "/global/0", "").status, 200);
  EXPECT_EQ(store.handle("GET", "/global/0", "").status, 404);
  EXPECT_EQ(store.handle("DELETE", "/global/0", "").status, 200) << "again";
}

TEST(KeyValue, RefusesWhatHorovodNeverAsks) {
  KeyValueStore store;
  for (const char* path : {"", "/", "//", "/a", "/a/", "//a", "/a/b/c", "a/b", "*"})
    EXPECT_EQ(store.handle("PUT", path, "x").status, 400) << path;
  EXPECT_EQ(store.handle("POST", "/a/b", "x").status, 405);
  EXPECT_EQ(store.handle("GET", "/a/b", "").status, 404);
}

TEST(KeyValue, HoldsToItsLimits) {
  KeyValueStore store({8, 10, 20});
  EXPECT_EQ(store.handle("PUT", "/a/123456", "x").status, 400) << "path of 9 bytes";
  EXPECT_EQ(store.handle("PUT", "/a/b", std::string(11, 'x')).status, 413);
  EXPECT_EQ(store.handle("PUT", "/a/b", std::string(10, 'x')).status, 200);  // 14 stored
  EXPECT_EQ(store.handle("PUT", "/a/c", std::string(3, 'x')).status, 507);
  EXPECT_EQ(store.handle("PUT", "/a/c", std::string(2, 'x')).status, 200);  // 20 stored
  EXPECT_EQ(store.handle("PUT", "/a/b", std::string(10, 'y')).status, 200) << "replaced, not added";
  EXPECT_EQ(store.handle("DELETE", "/a/c", "").status, 200);
  EXPECT_EQ(store.handle("PUT", "/a/d", std::string(2, 'x')).status, 200);
}

class Client {
 public:
  explicit Client(int port) : fd_(test::connection_to(port)) { EXPECT_TRUE(fd_); }
  void send(const std::string& bytes) { ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Until the server closes.
  std::string receive() {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::recv(fd_.get(), buffer, sizeof buffer, 0)) > 0;)
      all.append(buffer, static_cast<size_t>(n));
    return all;
  }
  std::string ask(const std::string& bytes) {
    send(bytes);
    return receive();
  }

 private:
  UniqueFd fd_;
};

std::string put(const std::string& path, const std::string& body) {
  return "PUT " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n";
}

TEST(HttpStoreServer, ManyRanksMeet) {
  auto server = HttpStoreServer::start();
  ASSERT_TRUE(server) << server.error().text;
  const int port = (*server)->port();
  constexpr int kRanks = 24;
  std::vector<std::thread> ranks;
  std::vector<int> met(kRanks, 0);
  ranks.reserve(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      const std::string value = "address of " + std::to_string(rank);
      EXPECT_NE(Client(port).ask(put("/global/" + std::to_string(rank), value)).find("200 OK"), std::string::npos);
      for (int other = 0; other < kRanks; ++other) {
        std::string reply;
        do reply = Client(port).ask(get("/global/" + std::to_string(other)));
        while (reply.find(" 404 ") != std::string::npos);
        const std::string expected = "address of " + std::to_string(other);
        EXPECT_EQ(reply.substr(reply.size() - expected.size()), expected);
        ++met[static_cast<size_t>(rank)];
      }
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(met, std::vector<int>(kRanks, kRanks));
}

TEST(HttpStoreServer, IsNotHarmedByHostileClients) {
  auto server = HttpStoreServer::start({4096, 1000, 100000});
  ASSERT_TRUE(server) << server.error().text;
  const int port = (*server)->port();
  EXPECT_NE(Client(port).ask(put("/a/b", std::string(1001, 'x'))).find(" 413 "), std::string::npos);
  EXPECT_NE(Client(port).ask("PUT /a/b HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n").find(" 413 "),
            std::string::npos);
  EXPECT_EQ(Client(port).ask("\x16\x03\x01 not HTTP at all\r\n\r\n").find(" 200 "), std::string::npos);
  EXPECT_EQ(Client(port).ask(get("/../../../etc/passwd")).find(" 200 "), std::string::npos);
  EXPECT_EQ(Client(port).ask("GET /" + std::string(100000, 'a') + " HTTP/1.1\r\n\r\n").find(" 200 "),
            std::string::npos);
  std::vector<Client> silent;  // each holds up one of the server's threads for two seconds
  for (int i = 0; i < 8; ++i) silent.emplace_back(port);
  for (Client& client : silent) client.send("PUT /a/b HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf");
  EXPECT_NE(Client(port).ask(put("/a/c", "whole")).find(" 200 "), std::string::npos);
  EXPECT_NE(Client(port).ask(get("/a/c")).find("whole"), std::string::npos);
}

TEST(HttpStoreServer, ServesOnlyWhomTheCheckAllows) {
  std::atomic<bool> allowed{false};
  Connection seen;
  auto server = HttpStoreServer::start({}, [&](const Connection& connection, const std::function<void(bool)>& answer) {
    seen = connection;
    std::thread([answer, yes = allowed.load()] { answer(yes); }).join();
  });
  ASSERT_TRUE(server) << server.error().text;
  EXPECT_NE(Client((*server)->port()).ask(put("/a/b", "c")).find(" 403 "), std::string::npos);
  EXPECT_EQ(seen.server_port, (*server)->port());
  EXPECT_GT(seen.client_port, 0);
  EXPECT_NE(seen.client.find("127.0.0.1"), std::string::npos) << seen.client;
  allowed = true;
  EXPECT_NE(Client((*server)->port()).ask(get("/a/b")).find(" 404 "), std::string::npos) << "nothing was stored";
}

TEST(HttpStoreServer, EndsAtOnce) {
  auto server = HttpStoreServer::start();
  ASSERT_TRUE(server) << server.error().text;
  const int port = (*server)->port();
  Client(port).ask(put("/a/b", "c"));
  const auto begin = Clock::now();
  server->reset();
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1500)) << "civetweb looks every 2 s by itself";
}

}  // namespace
}  // namespace dl::rendezvous
