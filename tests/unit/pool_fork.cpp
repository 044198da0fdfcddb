// SPDX-License-Identifier: Apache-2.0
// What a process opened of a pool, in a child of fork(): it has the parent's sockets and numbers, so whatever it sent
// would be taken for the parent's.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "launcher/pool/include/dlpool.hpp"

namespace {

// Appends to keys, and answers with what they then hold.
class Notes {
 public:
  std::string apply(const dl::PoolKey& key, std::string_view bytes) { return all_[slot(key)] += bytes; }
  std::string read(const dl::PoolKey& key, std::string_view /*bytes*/) const {
    const auto found = all_.find(slot(key));
    return found == all_.end() ? std::string() : found->second;
  }
  std::string save(int slot) const { return all_.count(slot) != 0 ? all_.at(slot) : std::string(); }
  void load(int slot, std::string_view state) { all_[slot] = state; }
  void drop(int slot) { all_.erase(slot); }
  int wanted(const dl::PoolLoad& load) { return load.members; }

 private:
  static int slot(const dl::PoolKey& key) { return key.slot; }  // one key for each slot is enough here
  std::map<int, std::string> all_;
};

// The exit status of a child that runs this; 255: it was killed by a signal, such as that of alarm() if it hung.
int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(20);
    ::_exit(body());
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) return 254;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

bool is_refused(dlpool_result result) {
  return result == DLPOOL_E_STATE && std::strstr(dlpool_error(), "fork()") != nullptr;
}

class PoolFork : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dlpool-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    const std::string secret = folder_ + "/secret";
    dlpool_directory_options options{};
    options.struct_size = sizeof options;
    options.secret_file = secret.c_str();
    ASSERT_EQ(dlpool_directory_open(&options, &directory_), DLPOOL_OK) << dlpool_error();
    place_.directory = "127.0.0.1:" + std::to_string(dlpool_directory_port(directory_));
    place_.secret_file = secret;
    place_.timeout_s = 10;
    member_ = std::make_unique<dl::Pool<Notes>>(&notes_, place_);
    serving_ = std::thread([this] { served_ = member_->serve(); });
  }
  void TearDown() override {
    dlpool_directory_close(directory_);
    serving_.join();
    EXPECT_TRUE(served_) << served_.message();
    ::unlink(place_.secret_file.c_str());
    ::rmdir(folder_.c_str());
  }

  dlpool_directory* directory_ = nullptr;
  dl::PoolPlace place_;
  std::unique_ptr<dl::Pool<Notes>> member_;

 private:
  std::string folder_;
  Notes notes_;
  std::thread serving_;
  dl::PoolStatus served_;
};

}  // namespace

TEST_F(PoolFork, AClientsUpdatesAreRefusedInAChildAndThoseOfTheParentAreApplied) {
  auto client = std::make_unique<dl::PoolClient>(place_);
  ASSERT_EQ(client->update("k", "a").bytes, "a");
  EXPECT_EQ(in_child([&] {
              const dl::PoolAnswer update = client->update("k", "child"), read = client->read("k");
              client.reset();
              const bool refused = update.status.code() == DLPOOL_E_STATE && read.status.code() == DLPOOL_E_STATE &&
                                   update.status.message().find("fork()") != std::string::npos;
              // One of its own is another client.
              return refused ? dl::PoolClient(place_).update("k", "b").bytes == "ab" ? 0 : 2 : 1;
            }),
            0);
  const dl::PoolAnswer answer = client->update("k", "c");
  EXPECT_EQ(answer.bytes, "abc") << answer.status.message();
  EXPECT_EQ(client->read("k").bytes, "abc");
}

TEST_F(PoolFork, EveryCallButCloseIsRefusedInAChildAndClosingTouchesNothingOfTheParent) {
  const dlpool_options options = place_.c();
  dlpool_object object{};
  object.struct_size = sizeof object;
  object.apply = [](void*, int, const void*, size_t, const void*, size_t, dlpool_bytes*) { return 0; };
  object.save = [](void*, int, dlpool_bytes*) { return 0; };
  object.load = [](void*, int, const void*, size_t, dlpool_bytes*) { return 0; };
  object.drop = [](void*, int) {};
  dlpool_member* idle = nullptr;
  ASSERT_EQ(dlpool_member_create(&options, &object, &idle), DLPOOL_OK) << dlpool_error();
  dlpool_client* client = nullptr;
  ASSERT_EQ(dlpool_client_open(&options, &client), DLPOOL_OK) << dlpool_error();
  dlpool_call call{};
  call.key = "k", call.key_size = 1;
  call.bytes = "a", call.size = 1;
  ASSERT_EQ(dlpool_call_many(client, &call, 1), DLPOOL_OK) << dlpool_error();
  EXPECT_EQ(in_child([&] {
              dlpool_facts facts{};
              facts.struct_size = sizeof facts;
              if (!is_refused(dlpool_directory_facts(directory_, &facts))) return 1;
              if (dlpool_directory_port(directory_) != -1) return 2;
              if (!is_refused(dlpool_call_many(client, &call, 1)) || call.result != DLPOOL_E_STATE) return 3;
              if (!is_refused(dlpool_member_serve(idle))) return 4;
              member_->leave();
              dlpool_client_close(client);
              dlpool_member_destroy(idle);
              dlpool_directory_close(directory_);
              return 0;
            }),
            0);
  // The member has not left, and nobody has closed anything.
  EXPECT_EQ(dlpool_call_many(client, &call, 1), DLPOOL_OK) << dlpool_error();
  EXPECT_EQ(std::string(static_cast<const char*>(call.answer), call.answer_size), "aa");
  dlpool_facts facts{};
  facts.struct_size = sizeof facts;
  ASSERT_EQ(dlpool_directory_facts(directory_, &facts), DLPOOL_OK);
  EXPECT_EQ(facts.members, 1);
  dlpool_client_close(client);
  dlpool_member_destroy(idle);
}

// A program may fork while another thread of it is in the middle of a call, or while the directory's thread holds a
// lock.
TEST_F(PoolFork, AChildOfAProcessThatIsBusyWithItClosesAtOnce) {
  auto client = std::make_unique<dl::PoolClient>(place_);
  ASSERT_TRUE(client->update("k", "a").status);
  for (int turn = 0; turn < 20; ++turn) {
    std::thread caller([&] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->update("k", "a").status);
    });
    EXPECT_EQ(in_child([&] {
                client.reset();
                member_.reset();
                dlpool_directory_close(directory_);
                return 0;
              }),
              0);
    caller.join();
  }
  EXPECT_EQ(client->read("k").bytes.size(), 401U);
}
