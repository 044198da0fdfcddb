// SPDX-License-Identifier: Apache-2.0
// What each generation of torch sends, whole and in every way of cutting it in two or into single bytes; and rubbish.
#include "launcher/rendezvous/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/rendezvous_support.h"

namespace dl::rendezvous {
namespace {

using namespace test;
using Words = std::vector<std::string>;

struct Talk {
  const char* who;
  std::string bytes;
  Words requests;
};

std::string ping(uint32_t nonce) {
  std::string bytes = type(Op::kPing);
  put_u32(&bytes, nonce);
  return bytes;
}

// Requests after which the client waits for the answer are the last of their write, so that nothing follows them.
std::vector<Talk> talks() {
  return {
      {"torch 2.4 and later",
       validate() + ping(7) + type(Op::kSet) + text("/a") + text("1") + type(Op::kCompareSet) + text("/a") + text("1") +
           text("") + type(Op::kGet) + text("/a") + type(Op::kAdd) + text("/n") + i64(-3) + type(Op::kCheck) +
           list({"/a", "/b"}) + type(Op::kWait) + list({"/a"}) + type(Op::kNumKeys) + type(Op::kDelete) + text("/a") +
           type(Op::kAppend) + text("/a") + text("xy") + type(Op::kMultiGet) + list({"/a", "/n"}) +
           type(Op::kMultiSet) + i64(2) + text("/c") + text("3") + text("/d") + text("") + type(Op::kCancelWait) +
           type(Op::kQueuePush) + text("/q") + text("v") + type(Op::kQueuePop) + text("/q") + type(Op::kQueueLen) +
           text("/q") + type(Op::kListKeys) + type(Op::kBarrier) + text("/bar") + i64(4) + type(Op::kWait) + list({}) +
           type(Op::kGet) + text(""),
       {"VALIDATE #1015412686",
        "PING #7",
        "SET /a =1",
        "COMPARE_SET /a =1 =",
        "GET /a",
        "ADD /n #-3",
        "CHECK /a /b",
        "WAIT /a",
        "NUM_KEYS",
        "DELETE /a",
        "APPEND /a =xy",
        "MULTI_GET /a /n",
        "MULTI_SET /c /d =3 =",
        "CANCEL_WAIT",
        "QUEUE_PUSH /q =v",
        "QUEUE_POP /q",
        "QUEUE_LEN /q",
        "LIST_KEYS",
        "BARRIER /bar #4",
        "WAIT",
        "GET "}},
      {"torch 1.13: SET first, DELETE_KEY is 8",
       type(0) + text("/a") + text("1") + type(1) + text("/a") + text("1") + text("2") + type(2) + text("/a") +
           type(3) + text("/n") + i64(5) + type(4) + list({"/a"}) + type(5) + list({"/a", "/b"}) + type(6) + type(8) +
           text("/a"),
       {"SET /a =1", "COMPARE_SET /a =1 =2", "GET /a", "ADD /n #5", "CHECK /a", "WAIT /a /b", "NUM_KEYS", "DELETE /a"}},
      {"torch 1.13: ADD first", type(3) + text("init/") + i64(1), {"ADD init/ #1"}},
      {"2023: DELETE_KEY is 7",
       type(3) + text("/n") + i64(1) + type(7) + text("/n") + type(9) + list({"/a"}) + type(10) + i64(1) + text("/a") +
           text("b") + type(11),
       {"ADD /n #1", "DELETE /n", "MULTI_GET /a", "MULTI_SET /a =b", "CANCEL_WAIT"}},
      {"2023, the magic number before each request",
       magic() + type(0) + text("/a") + text("1") + magic() + type(7) + text("/a") + magic() + type(8) + text("/a") +
           text("x") + magic() + type(6),
       {"SET /a =1", "DELETE /a", "APPEND /a =x", "NUM_KEYS"}},
  };
}

TEST(RendezvousWire, EachGenerationIsUnderstoodHoweverItsBytesArrive) {
  for (const Talk& talk : talks()) {
    SCOPED_TRACE(talk.who);
    EXPECT_EQ(read_pieces({talk.bytes}).requests, talk.requests);
    for (size_t cut = 1; cut < talk.bytes.size(); ++cut) {
      const Read read = read_pieces({talk.bytes.substr(0, cut), talk.bytes.substr(cut)});
      ASSERT_EQ(read.requests, talk.requests) << "cut at " << cut;
      ASSERT_EQ(read.held, 0U);
    }
    std::vector<std::string> single;
    for (const char c : talk.bytes) single.emplace_back(1, c);
    EXPECT_EQ(read_pieces(single).requests, talk.requests);
  }
}

TEST(RendezvousWire, TypeEightWithItsValueInTheSameWriteIsAnAppend) {
  const std::string first = type(3) + text("/n") + i64(1);
  EXPECT_EQ(read_pieces({first, type(8) + text("/a") + text("xy")}).requests, (Words{"ADD /n #1", "APPEND /a =xy"}));
  EXPECT_EQ(read_pieces({first, type(8) + text("/a"), type(6)}).requests,
            (Words{"ADD /n #1", "DELETE /a", "NUM_KEYS"}));
}

TEST(RendezvousWire, WhatIsNoClientIsRefusedAtOnce) {
  const struct {
    const char* what;
    std::string bytes;
  } cases[] = {
      {"HTTP", "GET / HTTP/1.1\r\n\r\n"},
      {"TLS", "\x16\x03\x01\x02"},
      {"SSH", "SSH-2.0-x\r\n"},
      {"a key of 16 EiB", type(2) + i64(-1)},
      {"a key one byte beyond the limit", validate() + type(Op::kGet) + i64(kMaxTextBytes + 1)},
      {"a value beyond the limit", validate() + type(Op::kSet) + text("/a") + i64(int64_t{1} << 62)},
      {"too many keys", validate() + type(Op::kWait) + i64(kMaxKeyCount + 1)},
      {"16 Ei keys", validate() + type(Op::kMultiSet) + i64(-1)},
      {"an unknown request", validate() + type(19)},
      {"a second VALIDATE", validate() + validate()},
      {"an unknown request of an old client", type(3) + text("/n") + i64(1) + type(12)},
      {"WATCH_KEY", type(7)},
      {"a prefix that ends", magic() + type(6) + type(6)},
  };
  for (const auto& bad : cases) {
    EXPECT_TRUE(read_pieces({bad.bytes}).refused) << bad.what;
    std::vector<std::string> single;
    for (const char c : bad.bytes) single.emplace_back(1, c);
    EXPECT_TRUE(read_pieces(single).refused) << bad.what;
  }
}

TEST(RendezvousWire, MemoryGrowsWithWhatHasArrivedNotWithWhatIsAnnounced) {
  EXPECT_LT(read_pieces({validate() + type(Op::kSet) + text("/a") + i64(kMaxTextBytes) + "x"}).held, 1000U);
  EXPECT_LT(read_pieces({validate() + type(Op::kWait) + i64(kMaxKeyCount)}).held, 1000U);
  // So many keys of so many bytes are beyond one request.
  std::string bytes = validate() + type(Op::kWait) + i64(kMaxKeyCount);
  const std::string key = text(std::string(kMaxTextBytes, 'k'));
  Parser parser;
  bool refused = false;
  auto feed = [&](const std::string& piece) {
    for (size_t at = 0; at < piece.size() && !refused;) {
      Request request;
      bool complete = false;
      const auto used = parser.feed(piece.data() + at, piece.size() - at, &request, &complete);
      refused = !used;
      if (used) at += *used;
    }
  };
  feed(bytes);
  size_t fed = 0;
  for (; fed < 100 && !refused; ++fed) feed(key);
  EXPECT_TRUE(refused);
  EXPECT_LE(fed, kMaxRequestBytes / kMaxTextBytes + 1);
}

TEST(RendezvousWire, RandomBytesDoNoHarm) {
  std::mt19937 random(4);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = round % 2 == 0 ? validate() : std::string();
    const size_t size = random() % 64;
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(random() % (round % 3 == 0 ? 256 : 20));
    const size_t cut = random() % (bytes.size() + 1);
    const Read read = read_pieces({bytes.substr(0, cut), bytes.substr(cut)});
    EXPECT_LT(read.held, 10000U);
  }
}

}  // namespace
}  // namespace dl::rendezvous
