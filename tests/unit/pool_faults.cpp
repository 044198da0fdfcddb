// SPDX-License-Identifier: Apache-2.0
// Directories, members and clients that are suspended, that fail, or that are told nonsense by somebody who knows the
// secret.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "launcher/pool/client.h"
#include "launcher/pool/directory.h"
#include "launcher/pool/member.h"
#include "tests/unit/pool_world.h"

using namespace dl;
using namespace dl::pool;

namespace {

const std::string kSecret(kSecretBytes, 's');

std::unique_ptr<Directory> open(DirectorySettings settings) {
  settings.secret = kSecret;
  auto directory = Directory::open(std::move(settings));
  return directory ? std::move(directory).value() : nullptr;
}

std::string place(const Directory& directory) {
  return "127.0.0.1:" + std::to_string(directory.port());
}

class Serving {
 public:
  explicit Serving(const std::string& directory, Object* object = nullptr) {
    auto member = pool::Member::create(directory, kSecret, object == nullptr ? &log : object);
    if (!member) return;
    member_ = std::move(member).value();
    thread_ = std::thread([this] {
      try {
        status = member_->serve();
      } catch (const std::exception& e) {
        status = Error{Errc::kInternal, e.what()};
      }
    });
  }
  ~Serving() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  LogObject log{kSlots};
  Status status = Error{Errc::kInternal, "it does not serve yet"};

 private:
  std::unique_ptr<pool::Member> member_;
  std::thread thread_;
};

template <typename Is>
bool becomes(const Is& is) {
  for (const int64_t end = monotonic_ms() + 30000; monotonic_ms() < end;
       std::this_thread::sleep_for(std::chrono::milliseconds(2)))
    if (is()) return true;
  return false;
}

std::vector<Call> update(const std::string& key) {
  Call call;
  call.key = key;
  call.bytes = std::string(4, 'u');
  return {call};
}

// Of so many keys, among which there are some of each member.
std::vector<Call> updates(int keys) {
  std::vector<Call> calls;
  for (int key = 0; key < keys; ++key) calls.push_back(update(std::to_string(key)).front());
  return calls;
}

void serve_for_ever(const std::string& directory) {
  const Serving member(directory);
  ::pause();
}

// A process of its own, which is told where the directory is: a member, or what is given. It is to be made before this
// process has threads.
class Elsewhere {
 public:
  explicit Elsewhere(void (*body)(const std::string& directory) = serve_for_ever) {
    if (::pipe(port_) != 0) return;
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::alarm(60);
    int port = 0;
    if (::read(port_[0], &port, sizeof port) != sizeof port) ::_exit(1);
    body("127.0.0.1:" + std::to_string(port));
    ::_exit(0);
  }
  ~Elsewhere() {
    ::kill(pid_, SIGKILL);
    end();
    for (const int fd : port_) ::close(fd);
  }
  bool serve(int port) const { return ::write(port_[1], &port, sizeof port) == sizeof port; }
  void hang() const { ::kill(pid_, SIGSTOP); }
  // Its exit status.
  int end() const {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    return status;
  }

 private:
  int port_[2] = {-1, -1};
  pid_t pid_ = 0;
};

// Runs `body` in a process of its own, which with those that it has started is suspended when it writes into `say`, and
// goes on after so long; then it can read a byte from `hear`. Those that it has started go on somewhat later, as on
// other hosts. Returns its exit status.
int suspended(int64_t limit_ms, const std::function<bool(int say, int hear)>& body) {
  int said[2] = {}, heard[2] = {};
  if (::pipe(said) != 0 || ::pipe(heard) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::alarm(60);
    const bool well = body(said[1], heard[0]);
    ::signal(SIGTERM, SIG_IGN);
    ::kill(0, SIGTERM);
    ::_exit(well ? 0 : 1);
  }
  char byte = 0;
  EXPECT_EQ(::read(said[0], &byte, 1), 1);
  ::kill(-child, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(limit_ms));
  ::kill(child, SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  ::kill(-child, SIGCONT);
  EXPECT_EQ(::write(heard[1], "c", 1), 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  for (const int fd : {said[0], said[1], heard[0], heard[1]}) ::close(fd);
  return status;
}

}  // namespace

TEST(PoolFaults, APoolThatWasSuspendedAsAWholeGoesOn) {
  EXPECT_EQ(suspended(2000,
                      [](int say, int hear) -> bool {
                        const Elsewhere member;
                        DirectorySettings settings;
                        settings.silent_ms = 1000;
                        const auto directory = open(std::move(settings));
                        if (!member.serve(directory->port()) || !becomes([&] {
                              return directory->facts().members == 1 && directory->facts().unsettled == 0;
                            }))
                          return false;
                        char byte = 0;
                        if (::write(say, "s", 1) != 1 || ::read(hear, &byte, 1) != 1) return false;
                        return directory->facts().members == 1 && directory->facts().lost == 0;
                      }),
            0);
}

TEST(PoolFaults, TheTimeForWhichAClientWasSuspendedIsNotPartOfItsTimeOut) {
  EXPECT_EQ(suspended(3000,
                      [](int say, int hear) -> bool {
                        const auto directory = open({});
                        auto client = pool::Client::open(place(*directory), kSecret, 2);
                        // Nobody serves yet, so the call waits.
                        bool answered = false;
                        std::thread calling([&] {
                          auto calls = update("a");
                          answered = static_cast<bool>((*client)->call(&calls));
                        });
                        std::this_thread::sleep_for(std::chrono::milliseconds(250));
                        char byte = 0;
                        if (::write(say, "s", 1) != 1 || ::read(hear, &byte, 1) != 1) ::_exit(2);
                        const Serving member(place(*directory));
                        calling.join();
                        ::_exit(answered ? 0 : 1);  // the member serves on
                      }),
            0);
}

TEST(PoolFaults, ACallToAMemberThatHangsIsAnsweredByItsCopyWhenTheDirectoryHasGivenTheMemberUp) {
  const Elsewhere hangs;
  DirectorySettings settings;
  settings.silent_ms = 1000;
  auto directory = open(std::move(settings));
  ASSERT_TRUE(hangs.serve(directory->port()));
  const Serving stays(place(*directory));
  ASSERT_TRUE(becomes([&] { return directory->facts().members == 2 && directory->facts().unsettled == 0; }));
  auto client = pool::Client::open(place(*directory), kSecret, 20);
  auto calls = updates(64);
  ASSERT_TRUE((*client)->call(&calls));
  hangs.hang();
  const int64_t began = monotonic_ms();
  calls = updates(64);
  const Status called = (*client)->call(&calls);
  EXPECT_TRUE(called) << called.error().text;
  EXPECT_LT(monotonic_ms() - began, 15000);
  for (const Call& call : calls) EXPECT_EQ(call.answer, std::string("\2\0\0\0", 4)) << call.key;
  directory.reset();
}

TEST(PoolFaults, ADirectoryWhoseFunctionThrowsEndsItsPoolAndNotTheProgram) {
  DirectorySettings settings;
  settings.size = [](int /*wanted*/, int present) {
    if (present > 0) throw std::runtime_error("no more can be started");
  };
  auto directory = open(std::move(settings));
  Serving member(place(*directory));
  member.join();
  ASSERT_FALSE(member.status);
  EXPECT_EQ(member.status.error().text, "the directory of the pool at " + place(*directory) + " is gone");
}

TEST(PoolFaults, SignalsGoToTheProgramsOwnThreads) {
  std::atomic<int> blocked{-1};
  DirectorySettings settings;
  settings.size = [&](int /*wanted*/, int /*present*/) {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    blocked = sigismember(&now, SIGTERM);
  };
  auto directory = open(std::move(settings));
  EXPECT_TRUE(becomes([&] { return blocked != -1; }));
  directory.reset();
  EXPECT_EQ(blocked, 1);
}

struct ThrowingObject : LogObject {
  ThrowingObject() : LogObject(kSlots) {}
  Result<Answer> apply(int /*slot*/, std::string_view /*key*/, std::string_view /*bytes*/) override {
    throw std::runtime_error("it throws");
  }
};

TEST(PoolFaults, AMemberThatThrewIsMissedAtOnceAlthoughItStillExists) {
  DirectorySettings settings;
  settings.silent_ms = 600000;
  auto directory = open(std::move(settings));
  ThrowingObject object;
  Serving throws(place(*directory), &object);
  auto client = pool::Client::open(place(*directory), kSecret, 5);
  auto calls = update("a");
  EXPECT_TRUE((*client)->call(&calls));
  EXPECT_EQ(calls[0].status, AnswerStatus::kGap);  // it had no copy
  throws.join();
  EXPECT_EQ(throws.status.error().text, "it throws");
  EXPECT_TRUE(becomes([&] { return directory->facts().members == 0; }));
  directory.reset();
}

// Joins a pool and says nothing but what the test has it say. It can be reached nowhere.
class FalseMember {
 public:
  explicit FalseMember(const Directory& directory) : hub_(kSecret) {
    if (!hub_.open()) return;
    if (auto link = hub_.connect(place(directory), Who::kJoiner)) link_ = *link;
    say(Kind::kJoin, "127.0.0.1:1");
  }
  void say(Kind kind, const std::string& bytes = {}) {
    Message message;
    message.kind = kind;
    message.number = 1;
    message.bytes = bytes;
    hub_.send(link_, message);
    listen(0);
  }
  // Or has heard it before.
  bool hears(Kind kind) {
    for (const int64_t end = monotonic_ms() + 30000; heard_.count(kind) == 0 && monotonic_ms() < end;) listen(10);
    return heard_.count(kind) != 0;
  }

 private:
  void listen(int64_t limit_ms) {
    for (const Event& event : hub_.wait(limit_ms))
      if (event.what == Event::What::kMessage) heard_.insert(event.message.kind);
  }
  Hub hub_;
  Link link_ = 0;
  std::set<Kind> heard_;
};

TEST(PoolFaults, AMemberThatSaysSomethingWhileItIsToldThatItMayEndIsNotWaitedForWhenThePoolIsClosed) {
  DirectorySettings settings;
  settings.rule.min = settings.rule.max = 3;  // so that no slot is divided
  auto directory = open(std::move(settings));
  auto stays = std::make_unique<FalseMember>(*directory);
  {
    FalseMember leaves(*directory);
    ASSERT_TRUE(becomes([&] {
      stays->say(Kind::kWanted);
      leaves.say(Kind::kWanted);
      return directory->facts().members == 2;
    }));
    leaves.say(Kind::kLeave);
    ASSERT_TRUE(leaves.hears(Kind::kBye));
    leaves.say(Kind::kWanted);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const int64_t began = monotonic_ms();
  std::thread ends([&] { directory.reset(); });
  EXPECT_TRUE(stays->hears(Kind::kBye));
  stays.reset();
  ends.join();
  EXPECT_LT(monotonic_ms() - began, 1500);
}

struct AskedObject : LogObject {
  AskedObject() : LogObject(kSlots) {}
  Result<int> wanted(const Load& /*load*/) override {
    ++asked;
    return 1;
  }
  std::atomic<int> asked{0};
};

TEST(PoolFaults, AnObjectIsAskedFiveTimesASecondAlsoWhileAnotherMemberCannotBeReached) {
  DirectorySettings settings;
  settings.silent_ms = 600000;
  auto directory = open(std::move(settings));
  AskedObject object;
  const Serving member(place(*directory), &object);
  ASSERT_TRUE(becomes([&] { return object.asked > 0; }));
  FalseMember unreachable(*directory);  // is to have copies
  ASSERT_TRUE(unreachable.hears(Kind::kMembers));
  const int before = object.asked;
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));  // that nothing happens more often
  EXPECT_LE(object.asked - before, 15);
  EXPECT_GE(object.asked - before, 3);
  directory.reset();
}

TEST(PoolFaults, AClientThatWaitsForMembersAsksSeldomForATableThatStaysTheSame) {
  ClientCore core(1, kSlots);
  auto calls = update("a");
  core.begin(&calls);
  Table table;
  table.version = 1;
  table.owners.resize(kSlots);
  table.lost.resize(kSlots);
  Message answer;
  answer.bytes = write_table(table);
  int asked = 0;
  for (int64_t now = 1; now < 10000; ++now)
    for (const ClientPost& post : core.due(now))
      if (post.message.kind == Kind::kTableAsked) {
        ++asked;
        core.table(answer, now);
      }
  EXPECT_GE(asked, 90);
  EXPECT_LE(asked, 120);
  EXPECT_GE(core.next_ms(), 9999);  // it does nothing until then
  // One that changes is asked for soon, since the next change may come soon.
  table.version = 2;
  answer.bytes = write_table(table);
  int64_t now = 10000;
  while (core.due(now).empty()) ++now;
  core.table(answer, now);
  EXPECT_TRUE(core.due(now + 1).empty());
  EXPECT_EQ(core.due(now + 2).size(), 1U);
}

struct HugeObject : LogObject {
  HugeObject() : LogObject(kSlots) {}
  Result<std::string> save(int /*slot*/) override { return std::string(kMostState, 'h'); }
};

TEST(PoolFaults, AMemberDoesNotEndBecauseASlotIsTooLargeToBeCopied) {
  HugeObject object;
  MemberCore core(&object, kSlots);
  Message order;
  order.kind = Kind::kMembers;
  order.bytes = write_members({{1, "a"}, {2, "b"}});
  core.from_directory(order);
  order.kind = Kind::kOwn;
  order.slot = 5;
  order.epoch = 1;
  order.bytes = {};
  core.from_directory(order);
  core.posts();
  order.kind = Kind::kCopy;
  order.member = 2;
  order.number = 9;
  core.from_directory(order);
  EXPECT_EQ(core.failure(), "");
  EXPECT_TRUE(core.owns(5));
  const auto posts = core.posts();
  ASSERT_EQ(posts.size(), 1U);
  EXPECT_EQ(posts[0].message.kind, Kind::kCopied);
  EXPECT_EQ(posts[0].message.number, 9U);
  EXPECT_EQ(posts[0].message.status, 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end a program that has no memory left
struct LargeObject : LogObject {
  LargeObject() : LogObject(kSlots) {}
  Result<Answer> read(int /*slot*/, std::string_view /*key*/, std::string_view /*bytes*/) override {
    return Answer{false, std::string(kMostBytes, 'l')};
  }
};

TEST(PoolFaults, AClientThatHadNoMemoryForAnAnswerCanOnlyBeClosed) {
  const Elsewhere without_memory([](const std::string& directory) {
    auto client = pool::Client::open(directory, kSecret, 20);
    auto calls = update("a");
    if (!client || !(*client)->call(&calls)) ::_exit(1);
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    sizes >> pages;
    const rlimit limit{pages * 4096 + (8 << 20), RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      auto large = update("a");
      large[0].kind = Kind::kRead;
      ignore((*client)->call(&large), "it throws");
      ::_exit(2);
    } catch (const std::bad_alloc&) {  // as it should be
    }
    const Status again = (*client)->call(&calls);
    (*client)->farewell(1);
    ::_exit(!again && again.error().code == Errc::kBusy ? 0 : 3);
  });
  auto directory = open({});
  LargeObject object;
  const Serving member(place(*directory), &object);
  ASSERT_TRUE(without_memory.serve(directory->port()));
  EXPECT_EQ(without_memory.end(), 0);
  directory.reset();
}
#endif
