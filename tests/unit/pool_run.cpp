// SPDX-License-Identifier: Apache-2.0
// Pools over real TCP, as a C++ program uses dlpool.hpp: members join, leave and lose connections while clients update;
// strangers, wrong secrets and hostile bytes are turned away. Whole processes and kills: tests/cli/pool.bats.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "launcher/pool/hub.h"
#include "launcher/pool/include/dlpool.hpp"
#include "launcher/pool/secret.h"

namespace {

struct Sum {
  int64_t value = 0, updates = 0;
  std::string save() const { return std::to_string(value) + " " + std::to_string(updates); }
  void load(std::string_view text) {
    const std::string copy(text);
    value = std::atoll(copy.c_str());
    updates = std::atoll(copy.c_str() + copy.find(' '));
  }
};

// Adds numbers to keys.
class Adder {
 public:
  std::string apply(const dl::PoolKey& key, std::string_view bytes) {
    if (bytes == "refuse") throw std::runtime_error("this number is refused");
    if (no_memory) throw std::bad_alloc();
    if (bytes == "too long an answer") return std::string(DLPOOL_MAX_BYTES + 1, 'a');
    Sum& sum = sums[key];
    sum.value += std::atoll(std::string(bytes).c_str());
    ++sum.updates;
    return std::to_string(sum.updates);
  }
  std::string read(const dl::PoolKey& key, std::string_view /*bytes*/) const {
    const Sum* sum = sums.find(key);
    return sum == nullptr ? "0 0" : sum->save();
  }
  std::string save(int slot) const {
    if (broken) throw std::runtime_error("the object is broken");
    return sums.save(slot);
  }
  void load(int slot, std::string_view state) { sums.load(slot, state); }
  void drop(int slot) {
    if (cannot_drop) throw std::runtime_error("it cannot drop a slot");
    sums.drop(slot);
  }
  int wanted(const dl::PoolLoad& load) {
    if (wants < 0) throw std::runtime_error("it wants nothing");
    return wants > 0 ? wants.load() : load.members;
  }

  dl::PoolMap<Sum> sums;
  std::atomic<int> wants{0};
  std::atomic<bool> broken{false}, no_memory{false}, cannot_drop{false};
};

class Running {
 public:
  explicit Running(const dl::PoolPlace& place) : pool_(&object, place), thread_([this] { status = pool_.serve(); }) {}
  void leave() { pool_.leave(); }
  void join() { thread_.join(); }
  ~Running() {
    if (thread_.joinable()) thread_.join();
  }

 public:
  Adder object;
  dl::PoolStatus status;

 private:
  dl::Pool<Adder> pool_;
  std::thread thread_;
};

class PoolRun : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dlpool-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    directory.reset();
    members.clear();
    ::unlink(secret().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string secret() const { return folder_ + "/secret"; }
  void open(dl::PoolDirectory::Options options) {
    options.secret_file = secret();
    directory = std::make_unique<dl::PoolDirectory>(std::move(options));
    ASSERT_TRUE(directory->status()) << directory->status().message();
  }
  dl::PoolPlace place() const {
    dl::PoolPlace place;
    place.directory = "127.0.0.1:" + std::to_string(directory->port());
    place.secret_file = secret();
    return place;
  }
  Running* start() {
    members.push_back(std::make_unique<Running>(place()));
    return members.back().get();
  }
  template <typename Is>
  void until(const Is& is) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "it did not become so within a minute";
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  void until_settled(int number) {
    until([&] {
      const dlpool_facts facts = directory->facts();
      return facts.members == number && facts.unsettled == 0;
    });
  }

  std::vector<std::unique_ptr<Running>> members;
  std::unique_ptr<dl::PoolDirectory> directory;  // ends before the members, who wait for it

 private:
  std::string folder_;
};

// Sends bytes to the directory, and returns whether it closed the connection.
bool is_hung_up_on(int port, const std::string& bytes) {
  const dl::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
  const timeval limit{20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char said[64];
  if (::recv(fd.get(), said, dl::pool::kChallengeBytes, MSG_WAITALL) != static_cast<ssize_t>(dl::pool::kChallengeBytes))
    return false;
  if (::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return true;
  ssize_t n = 0;
  while ((n = ::recv(fd.get(), said, sizeof said, 0)) > 0) {
  }
  return n == 0 || errno == ECONNRESET;
}

}  // namespace

TEST_F(PoolRun, AnUpdateIsAnsweredAndReadThroughWhicheverMemberHoldsItsKey) {
  open({});
  for (int i = 0; i < 3; ++i) start();
  dl::PoolClient client(place());
  for (int i = 0; i < 100; ++i) {
    const dl::PoolAnswer answer = client.update("key " + std::to_string(i % 10), std::to_string(i));
    ASSERT_TRUE(answer) << answer.status.message();
    EXPECT_EQ(answer.bytes, std::to_string(i / 10 + 1));
  }
  EXPECT_EQ(client.read("key 3").bytes, "480 10");
  EXPECT_EQ(client.read("never").bytes, "0 0");
}

TEST_F(PoolRun, WhatTheObjectRefusesIsItsSentenceAndChangesNothing) {
  open({});
  start();
  dl::PoolClient client(place());
  ASSERT_TRUE(client.update("a", "5"));
  const dl::PoolAnswer answer = client.update("a", "refuse");
  EXPECT_EQ(answer.status.code(), DLPOOL_E_OBJECT);
  EXPECT_EQ(answer.status.message(), "this number is refused");
  const auto answers = client.call({{false, "a", "1"}, {false, "a", "refuse"}, {true, "a", ""}});
  EXPECT_TRUE(answers[0]);
  EXPECT_EQ(answers[1].status.message(), "this number is refused");
  EXPECT_EQ(answers[2].bytes, "6 2");
}

TEST_F(PoolRun, MembersJoinAndLeaveWhileClientsUpdateAndNothingIsLostOrAppliedTwice) {
  open({});
  Running* first = start();
  constexpr int kClients = 3, kKeys = 200;
  std::atomic<bool> stop{false};
  std::atomic<int64_t> sent{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c)
    clients.emplace_back([&, c] {
      dl::PoolClient client(place());
      std::mt19937 random(static_cast<unsigned>(c));
      while (!stop) {
        std::vector<dl::PoolCall> calls;
        for (int i = 0; i < 20; ++i) calls.push_back({false, "key " + std::to_string(random() % kKeys), "1"});
        for (const dl::PoolAnswer& answer : client.call(calls))
          if (!answer) ++failed;
        sent += 20;
      }
    });
  until([&] { return sent > 1000; });
  start();
  until_settled(2);
  start();
  until_settled(3);
  first->leave();
  first->join();
  EXPECT_TRUE(first->status) << first->status.message();
  until_settled(2);
  const int64_t before = sent;
  until([&] { return sent > before + 1000; });
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(directory->facts().moved, 512U);
  dl::PoolClient reader(place());
  int64_t value = 0, updates = 0;
  for (int key = 0; key < kKeys; ++key) {
    Sum sum;
    sum.load(reader.read("key " + std::to_string(key)).bytes);
    value += sum.value;
    updates += sum.updates;
  }
  EXPECT_EQ(value, sent);
  EXPECT_EQ(updates, sent);
}

TEST_F(PoolRun, SlotsThatCannotBeSavedAreServedWhereTheyAreAndMoveWhenTheyCan) {
  open({});
  Running* first = start();
  until_settled(1);
  first->object.broken = true;
  start();
  until([&] { return directory->facts().members == 2; });
  dl::PoolClient client(place());
  for (int round = 1; round <= 3; ++round)
    for (int i = 0; i < 50; ++i) {
      const dl::PoolAnswer answer = client.update("key " + std::to_string(i), "1");
      ASSERT_TRUE(answer) << answer.status.message();
      EXPECT_EQ(answer.bytes, std::to_string(round));
    }
  EXPECT_EQ(directory->facts().unsettled, DLPOOL_SLOTS);
  EXPECT_EQ(directory->facts().lost, 0);
  first->object.broken = false;
  until_settled(2);
  EXPECT_EQ(directory->facts().lost, 0);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.read("key " + std::to_string(i)).bytes, "3 3");
}

TEST_F(PoolRun, AMemberThatHasNoMemoryForAnUpdateEndsAndItsCopyCarriesTheUpdateOut) {
  open({});
  Running* first = start();
  start();
  until_settled(2);
  dl::PoolClient client(place());
  first->object.no_memory = true;
  for (int i = 0; i < 50; ++i) {
    const dl::PoolAnswer answer = client.update("key " + std::to_string(i), "1");
    ASSERT_TRUE(answer) << answer.status.message();
    EXPECT_EQ(answer.bytes, "1");
  }
  first->join();
  EXPECT_EQ(first->status.code(), DLPOOL_E_OBJECT);
  EXPECT_NE(first->status.message().find("out of memory"), std::string::npos) << first->status.message();
}

TEST_F(PoolRun, AnUpdateThatWasCarriedOutIsNotSaidToBeRefusedBecauseItsAnswerIsTooLong) {
  open({});
  Running* first = start();
  dl::PoolClient client(place());
  EXPECT_EQ(client.update("a", "too long an answer").status.code(), DLPOOL_E_LOST);
  first->join();
  EXPECT_EQ(first->status.code(), DLPOOL_E_OBJECT);
  EXPECT_NE(first->status.message().find("longer than 64 MiB"), std::string::npos) << first->status.message();
}

TEST_F(PoolRun, AMemberWhoseObjectCannotDropASlotEndsAndOneThatThrowsInWantedLivesOn) {
  open({});
  Running* first = start();
  Running* second = start();
  first->object.wants = second->object.wants = -1;
  until_settled(2);
  dl::PoolClient client(place());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(client.update("key " + std::to_string(i), "1"));
  first->object.cannot_drop = true;
  start();  // has slots that the first member need not hold any more
  first->join();
  EXPECT_EQ(first->status.code(), DLPOOL_E_OBJECT) << first->status.message();
  until_settled(2);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.read("key " + std::to_string(i)).bytes, "1 1");
}

TEST_F(PoolRun, TheSizeFollowsWhatMembersWantWithinItsRange) {
  dl::PoolDirectory::Options options;
  options.min = 1;
  options.max = 3;
  std::atomic<int> wanted{0};
  options.size = [&](int size, int /*present*/) { wanted = size; };
  open(std::move(options));
  Running* first = start();
  until([&] { return wanted == 1; });
  first->object.wants = 9;
  until([&] { return wanted == 3; });
  for (int i = 0; i < 2; ++i) start()->object.wants = 9;
  until_settled(3);
  for (const auto& member : members) member->object.wants = 1;
  until_settled(1);
  members[2]->join();
  members[1]->join();
  EXPECT_TRUE(members[1]->status);
  EXPECT_TRUE(members[2]->status);
  directory.reset();  // before what its function uses
}

TEST_F(PoolRun, ClosingThePoolEndsItsMembersWithoutAnError) {
  open({});
  start();
  start();
  until_settled(2);
  directory.reset();
  for (const auto& member : members) {
    member->join();
    EXPECT_TRUE(member->status) << member->status.message();
  }
}

TEST_F(PoolRun, WhoeverHasAnotherSecretIsTurnedAwayAndTheSecretIsReadByItsUserAlone) {
  open({});
  start();
  dl::PoolPlace stranger = place();
  stranger.secret_file = secret() + ".other";
  stranger.timeout_s = 0.3;
  ASSERT_TRUE(dl::pool::write_secret(stranger.secret_file, std::string(dl::pool::kSecretBytes, 's')));
  EXPECT_EQ(dl::PoolClient(stranger).update("a", "1").status.code(), DLPOOL_E_TIMEOUT);
  Running joiner(stranger);
  joiner.join();
  EXPECT_EQ(joiner.status.code(), DLPOOL_E_PEER);
  EXPECT_NE(joiner.status.message().find("has another secret"), std::string::npos);
  ASSERT_EQ(::chmod(stranger.secret_file.c_str(), 0640), 0);
  const dl::PoolAnswer answer = dl::PoolClient(stranger).update("a", "1");
  EXPECT_EQ(answer.status.code(), DLPOOL_E_DENIED);
  ::unlink(stranger.secret_file.c_str());
  EXPECT_TRUE(dl::PoolClient(place()).update("a", "1"));
}

TEST_F(PoolRun, EachCallHasAResultAlsoWhereNoneWasAnswered) {
  open({});
  dl::PoolPlace nobody = place();
  nobody.timeout_s = 0.2;
  const dlpool_options options = nobody.c();
  dlpool_client* client = nullptr;
  ASSERT_EQ(dlpool_client_open(&options, &client), DLPOOL_OK);
  dlpool_call calls[2] = {};
  for (dlpool_call& call : calls) call.answer = "before";
  for (const dlpool_result result : {DLPOOL_E_TIMEOUT, DLPOOL_E_STATE}) {
    EXPECT_EQ(dlpool_call_many(client, calls, 2), result);
    for (const dlpool_call& call : calls) {
      EXPECT_EQ(call.result, result);
      EXPECT_EQ(call.answer, nullptr);
    }
  }
  calls[1].key_size = DLPOOL_MAX_KEY + 1;
  EXPECT_EQ(dlpool_call_many(client, calls, 2), DLPOOL_E_INVALID);
  EXPECT_EQ(calls[0].result, DLPOOL_E_INVALID);
  dlpool_client_close(client);
}

TEST_F(PoolRun, HostileBytesCloseTheConnectionAndThePoolServesOn) {
  open({});
  start();
  dl::PoolClient client(place());
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(dl::pool::kIntroductionBytes + random() % 100, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 2 == 0) bytes.replace(0, 8, std::string("DLPC\1\0\0\0", 8));
    ASSERT_TRUE(is_hung_up_on(directory->port(), bytes)) << i;
    ASSERT_TRUE(client.update("a", "1"));
  }
  // More strangers than are listened to at once, all of them silent.
  std::vector<dl::UniqueFd> silent;
  for (size_t i = 0; i < dl::pool::kMostUnproved + 50; ++i) {
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(directory->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_TRUE(dl::PoolClient(place()).update("a", "1"));
}

TEST_F(PoolRun, AClientThatKnowsTheSecretAndTalksNonsenseIsClosed) {
  open({});
  start();
  auto key = dl::pool::read_secret(secret());
  ASSERT_TRUE(key);
  for (const auto who : {dl::pool::Who::kClient, dl::pool::Who::kJoiner, dl::pool::Who::kMember}) {
    dl::pool::Hub hub(*key);
    ASSERT_TRUE(hub.open());
    auto link = hub.connect(place().directory, who, 77);
    ASSERT_TRUE(link);
    dl::pool::Message nonsense;
    nonsense.kind = dl::pool::Kind::kInstall;
    nonsense.slot = 4000000000U;
    nonsense.bytes = "nonsense";
    hub.send(*link, nonsense);
    bool closed = false;
    until([&] {
      for (const dl::pool::Event& event : hub.wait(100))
        closed = closed || event.what == dl::pool::Event::What::kClosed;
      return closed;
    });
  }
  EXPECT_TRUE(dl::PoolClient(place()).update("a", "1"));
}

TEST_F(PoolRun, AMemberTakesNothingButCallsFromClients) {
  open({});
  start();
  dl::PoolClient client(place());
  ASSERT_TRUE(client.update("a", "1"));
  auto key = dl::pool::read_secret(secret());
  ASSERT_TRUE(key);
  dl::pool::Hub hub(*key);
  ASSERT_TRUE(hub.open());
  auto link = hub.connect(place().directory, dl::pool::Who::kClient);
  dl::pool::Message message;
  message.kind = dl::pool::Kind::kTableAsked;
  hub.send(*link, message);
  std::string address;
  until([&] {
    for (const dl::pool::Event& event : hub.wait(100))
      if (event.message.kind == dl::pool::Kind::kTable)
        address = dl::pool::read_table(event.message.bytes)->members.front().address;
    return !address.empty();
  });
  // An update in every way but its kind.
  link = hub.connect(address, dl::pool::Who::kClient);
  message.kind = dl::pool::Kind::kInstall;
  message.slot = static_cast<uint32_t>(dlpool_slot("a", 1));
  message.client = 77;
  message.epoch = 1;
  message.key = "a";
  message.bytes = "1";
  hub.send(*link, message);
  bool closed = false;
  until([&] {
    for (const dl::pool::Event& event : hub.wait(100)) {
      EXPECT_NE(event.message.kind, dl::pool::Kind::kAck);
      closed = closed || event.what == dl::pool::Event::What::kClosed ||
               (event.what == dl::pool::Event::What::kMessage && event.message.kind == dl::pool::Kind::kAnswer);
    }
    return closed;
  });
  EXPECT_EQ(client.read("a").bytes, "1 1");
}

TEST(PoolMap, WhatIsCutShortIsNotLoaded) {
  dl::PoolMap<Sum> map, other;
  for (const char* key : {"a", "b"}) map[{key, 3}].value = 5;
  const std::string state = map.save(3);
  other.load(3, state);
  EXPECT_EQ(other.save(3), state);
  for (size_t size = 1; size < state.size(); ++size) {
    // A whole pair is a state, too.
    if (size == state.size() / 2) continue;
    EXPECT_ANY_THROW(other.load(3, state.substr(0, size))) << size;
  }
}

TEST_F(PoolRun, WrongOptionsAreSaidInOneSentence) {
  dlpool_directory_options options{};
  dlpool_directory* directory_of = nullptr;
  options.struct_size = sizeof options;
  options.min = 3;
  options.max = 2;
  options.secret_file = "x";
  EXPECT_EQ(dlpool_directory_open(&options, &directory_of), DLPOOL_E_INVALID);
  EXPECT_STREQ(dlpool_error(), "min and max: 3 and 2 are no range of members; allowed: 1 <= min <= max <= 4096");
  options.struct_size = 3;
  EXPECT_EQ(dlpool_directory_open(&options, &directory_of), DLPOOL_E_INVALID);
  EXPECT_EQ(dlpool_directory_open(nullptr, nullptr), DLPOOL_E_INVALID);
  dlpool_client* client = nullptr;
  ::unsetenv("DL_POOL");
  EXPECT_EQ(dlpool_client_open(nullptr, &client), DLPOOL_E_INVALID);
  EXPECT_STREQ(dlpool_error(), "the directory of the pool is not known; allowed: the option, or the variable DL_POOL");
  ASSERT_TRUE(dl::pool::write_secret(secret(), std::string(dl::pool::kSecretBytes, 's')));
  for (const char* place :
       {"nowhere", "127.0.0.1", "127.0.0.1:", ":5", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x"}) {
    dl::PoolPlace wrong;
    wrong.directory = place;
    wrong.secret_file = secret();
    const dl::PoolStatus status = dl::PoolClient(wrong).update("a", "1").status;
    EXPECT_EQ(status.code(), DLPOOL_E_INVALID) << place;
    EXPECT_EQ(status.message(),
              "address '" + wrong.directory +
                  "' of a pool has no host or no port; allowed: HOST:PORT, with PORT from 1 to 65535");
    Adder object;
    EXPECT_EQ(dl::Pool<Adder>(&object, wrong).serve().code(), DLPOOL_E_INVALID) << place;
  }
  EXPECT_EQ(dlpool_call_many(nullptr, nullptr, 0), DLPOOL_E_INVALID);
  dlpool_client_close(nullptr);
  dlpool_member_destroy(nullptr);
  dlpool_directory_close(nullptr);
}
