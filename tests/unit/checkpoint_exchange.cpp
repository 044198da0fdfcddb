// SPDX-License-Identifier: Apache-2.0
// Bytes from rank to rank: they arrive whole and in order, strangers are refused and hold up nobody, a rank that goes
// away is noticed, and where there is no exchange all ranks know it.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <numeric>
#include <random>

#include "checkpoint/group/group.h"
#include "checkpoint/transport/hmac.h"
#include "checkpoint/transport/tcp_exchange.h"
#include "checkpoint/transport/wire.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr uint64_t kChannel = make_channel(ChannelKind::kTest, 1);
constexpr double kSoon_s = 20;

std::string hex(const Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

TEST(CheckpointExchange, HmacGivesThePublishedDigests) {
  // RFC 4231, cases 1, 2 and 6 (a key longer than a chunk).
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// Exchanges of `count` ranks over loopback, without a group.
struct Ranks {
  std::string secret = std::string(32, 's');
  std::vector<Endpoint> endpoints;
  std::vector<std::unique_ptr<Exchange>> all;
  explicit Ranks(int count, double timeout_s = kSoon_s) {
    std::vector<UniqueFd> listeners;
    endpoints.resize(static_cast<size_t>(count));
    for (Endpoint& endpoint : endpoints) {
      auto listener = listen_on("127.0.0.1", &endpoint);
      EXPECT_TRUE(listener);
      listeners.push_back(*std::move(listener));
    }
    for (int rank = 0; rank < count; ++rank) {
      auto made =
          make_tcp_exchange(rank, std::move(listeners[static_cast<size_t>(rank)]), endpoints, secret, true, timeout_s);
      EXPECT_TRUE(made);
      all.push_back(*std::move(made));
    }
  }
  Exchange& operator[](int rank) { return *all[static_cast<size_t>(rank)]; }
};

std::vector<unsigned char> noise(size_t size, unsigned seed) {
  std::vector<unsigned char> bytes(size);
  std::mt19937 random(seed);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

bool same(const RankMessage& message, const std::vector<unsigned char>& bytes) {
  return message.bytes.size() == bytes.size() &&
         (bytes.empty() || std::memcmp(message.bytes.data(), bytes.data(), bytes.size()) == 0);
}

TEST(CheckpointExchange, MessagesOfEverySizeArriveWholeAndInOrderFromAllToAll) {
  constexpr int kRanks = 4;
  const std::vector<size_t> sizes = {0, 1, 55, 56, 57, 4096, 1000003, size_t{9} << 20};
  Ranks ranks(kRanks);
  run_ranks(kRanks, [&](int me) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto bytes = noise(sizes[i], static_cast<unsigned>(me) * 100 + static_cast<unsigned>(i));
      for (int to = 0; to < kRanks; ++to) {
        auto sent = ranks[me].send(to, kChannel, i, bytes.data(), bytes.size());
        EXPECT_TRUE(sent) << sent.error().text;
      }
    }
    std::vector<uint64_t> next(kRanks, 0);
    for (size_t n = 0; n < kRanks * sizes.size(); ++n) {
      auto message = ranks[me].receive(kChannel, {}, kSoon_s);
      ASSERT_TRUE(message) << message.error().text;
      uint64_t& expected = next[static_cast<size_t>(message->from)];
      EXPECT_EQ(message->tag, expected);
      EXPECT_TRUE(same(*message, noise(sizes[expected],
                                       static_cast<unsigned>(message->from) * 100 + static_cast<unsigned>(expected))));
      ++expected;
    }
  });
}

TEST(CheckpointExchange, ASlowReceiverHoldsBackItsSenderAndLosesNothing) {
  Ranks ranks(2);
  constexpr int kMessages = 40;  // 320 MiB, more than may wait
  const auto bytes = noise(size_t{8} << 20, 1);
  std::thread sender([&] {
    for (int i = 0; i < kMessages; ++i)
      EXPECT_TRUE(ranks[0].send(1, kChannel, static_cast<uint64_t>(i), bytes.data(), bytes.size()));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (int i = 0; i < kMessages; ++i) {
    auto message = ranks[1].receive(kChannel, {true, false}, kSoon_s);
    ASSERT_TRUE(message) << message.error().text;
    EXPECT_EQ(message->tag, static_cast<uint64_t>(i));
    EXPECT_EQ(message->bytes.size(), bytes.size());
  }
  sender.join();
}

TEST(CheckpointExchange, ChannelsAreApartAndAClosedOneDropsWhatStillComes) {
  Ranks ranks(2);
  const uint64_t second = make_channel(ChannelKind::kTest, 2), other = make_channel(ChannelKind::kPartner, 1);
  ASSERT_TRUE(ranks[0].send(1, kChannel, 1, "a", 1));
  ASSERT_TRUE(ranks[0].send(1, second, 2, "b", 1));
  ASSERT_TRUE(ranks[0].send(1, other, 3, "c", 1));
  auto message = ranks[1].receive(other, {}, kSoon_s);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tag, 3U);
  ranks[1].close_channel(kChannel);
  EXPECT_FALSE(ranks[1].receive(kChannel, {}, 0.01));
  message = ranks[1].receive(second, {}, kSoon_s);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tag, 2U);
  ASSERT_TRUE(ranks[0].send(1, kChannel, 4, "d", 1));
  EXPECT_EQ(ranks[1].receive(second, {}, 0.05).error().code, Errc::kTimeout);
}

TEST(CheckpointExchange, ARankThatGoesAwayIsNoticedByThoseWhoAwaitIt) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks[1].send(0, kChannel, 1, "x", 1));
  ASSERT_TRUE(ranks[2].send(0, kChannel, 1, "y", 1));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(ranks[0].receive(kChannel, {}, kSoon_s));
  ranks.all[1].reset();
  auto none = ranks[0].receive(kChannel, {false, true, false}, kSoon_s);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kIo);
  EXPECT_NE(none.error().text.find("rank 1"), std::string::npos) << none.error().text;
  // The others go on.
  ASSERT_TRUE(ranks[2].send(0, kChannel, 2, "z", 1));
  EXPECT_TRUE(ranks[0].receive(kChannel, {false, false, true}, kSoon_s));
  EXPECT_FALSE(ranks[0].send(1, kChannel, 3, "nobody", 6));
}

// A stranger's connection to a rank, until the other end closes it: what was received.
std::string talk(const Endpoint& endpoint, const std::string& words) {
  auto fd = connect_to(endpoint, kSoon_s);
  if (!fd) return "no connection";
  EXPECT_TRUE(send_all(fd->get(), words.data(), words.size()));
  ::shutdown(fd->get(), SHUT_WR);
  std::string heard;
  char byte = 0;
  while (receive_all(fd->get(), &byte, 1)) heard += byte;
  return heard;
}

template <typename Array>
std::string text_of(const Array& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST(CheckpointExchange, StrangersAreRefusedAndHoldUpNobody) {
  Ranks ranks(2);
  // Those that say nothing at all, more than are let in at once.
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; ++i) {
    auto fd = connect_to(ranks.endpoints[1], kSoon_s);
    ASSERT_TRUE(fd);
    silent.push_back(*std::move(fd));
  }
  // Nonsense; and an answer made without the secret. None is told more than the challenge.
  EXPECT_EQ(talk(ranks.endpoints[1], std::string(1000, 'x')).size(), wire::kChallengeBytes);
  wire::Answer answer;
  answer.receiver = 1;
  EXPECT_EQ(talk(ranks.endpoints[1], text_of(wire::answer("guess", wire::Nonce{}, answer))).size(),
            wire::kChallengeBytes);
  // The right secret, but an answer to another challenge (a recorded one).
  EXPECT_EQ(talk(ranks.endpoints[1], text_of(wire::answer(ranks.secret, wire::Nonce{}, answer))).size(),
            wire::kChallengeBytes);
  ASSERT_TRUE(ranks[0].send(1, kChannel, 7, "hello", 5));
  auto message = ranks[1].receive(kChannel, {true, false}, kSoon_s);
  ASSERT_TRUE(message) << message.error().text;
  EXPECT_EQ(message->tag, 7U);
}

// Proves itself as `sender`, then says `words`; true if the rank closes the connection.
bool refused_after_proof(Ranks& ranks, uint32_t sender, uint32_t receiver, const std::string& words) {
  auto fd = connect_to(ranks.endpoints[1], kSoon_s);
  if (!fd) return false;
  unsigned char challenge[wire::kChallengeBytes];
  EXPECT_TRUE(receive_all(fd->get(), challenge, sizeof challenge));
  wire::Answer answer;
  answer.sender = sender;
  answer.receiver = receiver;
  const std::string bytes = text_of(wire::answer(ranks.secret, *wire::read_challenge(challenge), answer)) + words;
  EXPECT_TRUE(send_all(fd->get(), bytes.data(), bytes.size()));
  char byte = 0;
  int heard = 0;
  Status more;
  while ((more = receive_all(fd->get(), &byte, 1))) ++heard;
  return heard <= static_cast<int>(wire::kConfirmationBytes) && more.error().code == Errc::kIo;
}

TEST(CheckpointExchange, DamagedHeadsAndImpossibleLengthsCloseTheConnection) {
  Ranks ranks(2);
  wire::Head head;
  head.channel = kChannel;
  head.length = kMaxExchangeBytes + 1;
  EXPECT_TRUE(refused_after_proof(ranks, 0, 1, text_of(wire::encode_head(head))));
  head.length = 4;
  std::string damaged = text_of(wire::encode_head(head));
  damaged[16] = static_cast<char>(damaged[16] ^ 1);
  EXPECT_TRUE(refused_after_proof(ranks, 0, 1, damaged + "abcd"));
  EXPECT_TRUE(refused_after_proof(ranks, 99, 1, ""));  // no such rank
  EXPECT_TRUE(refused_after_proof(ranks, 0, 0, ""));   // meant for another
  ASSERT_TRUE(ranks[0].send(1, kChannel, 1, "ok", 2));
  EXPECT_TRUE(ranks[1].receive(kChannel, {}, kSoon_s));
}

TEST(CheckpointExchange, BytesDamagedOnTheWayAreNotDelivered) {
  Ranks ranks(2);
  wire::Head head;
  head.channel = kChannel;
  head.length = 4;
  head.hash = hash_bytes("abcd", 4);
  std::thread stranger([&] {
    auto fd = connect_to(ranks.endpoints[1], kSoon_s);
    ASSERT_TRUE(fd);
    unsigned char challenge[wire::kChallengeBytes];
    EXPECT_TRUE(receive_all(fd->get(), challenge, sizeof challenge));
    wire::Answer answer;
    answer.receiver = 1;
    const std::string words = text_of(wire::answer(ranks.secret, *wire::read_challenge(challenge), answer)) +
                              text_of(wire::encode_head(head)) + "abce";
    EXPECT_TRUE(send_all(fd->get(), words.data(), words.size()));
    Digest proof{};
    EXPECT_TRUE(receive_all(fd->get(), proof.data(), proof.size()));
  });
  auto message = ranks[1].receive(kChannel, {}, kSoon_s);
  stranger.join();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Errc::kIo);
  EXPECT_NE(message.error().text.find("damaged"), std::string::npos) << message.error().text;
}

TEST(CheckpointExchange, RanksMeetThroughTheGroupAndTheSecretIsPrivate) {
  const TempDir dir;
  constexpr int kRanks = 3;
  run_ranks(kRanks, [&](int rank) {
    const auto group = make_file_group(posix_io(), dir.path(), "run", rank, kRanks, kSoon_s);
    group->start();
    auto exchange = make_exchange(*group, kSoon_s);
    ASSERT_TRUE(exchange) << exchange.error().text;
    ASSERT_TRUE(*exchange);
    EXPECT_TRUE((*exchange)->one_host());
    EXPECT_EQ((*exchange)->rank(), rank);
    const int next = (rank + 1) % kRanks;
    EXPECT_TRUE((*exchange)->send(next, kChannel, 5, &rank, sizeof rank));
    auto message = (*exchange)->receive(kChannel, {}, kSoon_s);
    ASSERT_TRUE(message) << message.error().text;
    EXPECT_EQ(message->from, (rank + kRanks - 1) % kRanks);
    if (rank == 0) {
      int secrets = 0;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
        if (entry.path().filename() != "secret") continue;
        ++secrets;
        struct stat file {
        }, folder{};
        ASSERT_EQ(::stat(entry.path().c_str(), &file), 0);
        ASSERT_EQ(::stat(entry.path().parent_path().c_str(), &folder), 0);
        EXPECT_EQ(file.st_mode & 07777U, 0600U);
        EXPECT_EQ(folder.st_mode & 07777U, 0700U);
      }
      EXPECT_EQ(secrets, 1);
    }
    EXPECT_TRUE(group->gather(""));
    EXPECT_TRUE(group->broadcast("", 1));
  });
  EXPECT_TRUE(leftovers(dir.path()).empty());
}

TEST(CheckpointExchange, WithoutItAllRanksKnow) {
  const TempDir dir;
  constexpr int kRanks = 3;
  ASSERT_EQ(setenv("DL_CHECKPOINT_TRANSPORT", "files", 1), 0);
  run_ranks(kRanks, [&](int rank) {
    const auto group = make_file_group(posix_io(), dir.path(), "run", rank, kRanks, kSoon_s);
    group->start();
    auto exchange = make_exchange(*group, kSoon_s);
    ASSERT_TRUE(exchange) << exchange.error().text;
    EXPECT_FALSE(*exchange);
  });
  unsetenv("DL_CHECKPOINT_TRANSPORT");
  EXPECT_FALSE(*make_exchange(*make_single_group(), kSoon_s));
}

TEST(CheckpointExchange, EndpointsAreNumericAddressesAndPorts) {
  for (const char* good : {"127.0.0.1 1", "10.0.0.7 65535", "fd00::1 4711"}) {
    auto endpoint = parse_endpoint(good);
    ASSERT_TRUE(endpoint) << good;
    EXPECT_EQ(format_endpoint(*endpoint), good);
  }
  for (const char* bad :
       {"", "127.0.0.1", "127.0.0.1 ", "127.0.0.1 0", "127.0.0.1 65536", "localhost 1", "1.2.3 4", " 1"})
    EXPECT_FALSE(parse_endpoint(bad)) << bad;
}

}  // namespace
}  // namespace dl::ckpt::test
