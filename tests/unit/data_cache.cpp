// SPDX-License-Identifier: Apache-2.0
// The cache on a node: which sets leave it, leases that end with their holder, folders of others.
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "common/base/atomic_file.h"
#include "launcher/data/eviction.h"
#include "launcher/data/fetch.h"
#include "launcher/data/node_cache.h"
#include "launcher/data/progress.h"
#include "launcher/data/work.h"
#include "launcher/data/write_all.h"

namespace {
std::mutex synced_mutex;
std::vector<std::string> synced;  // the files that were written out
}  // namespace

// In the place of the C library's, which it calls.
extern "C" int fsync(int fd) {
  char path[4096];
  const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  {
    const std::lock_guard<std::mutex> lock(synced_mutex);
    synced.emplace_back(path, n > 0 ? static_cast<size_t>(n) : 0);
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace dl::data {
namespace {

class DataCache : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-data-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(folder_)); }

  NodeCache open(uint64_t limit = 0) {
    CacheLimits limits;
    limits.limit = limit;
    limits.floor_percent = 0;
    auto cache = NodeCache::open(folder_ + "/cache", limits);
    EXPECT_TRUE(cache) << (cache ? "" : cache.error().text);
    return *std::move(cache);
  }

  // A set with one file of that size.
  static void add(const NodeCache& cache, const std::string& key, size_t bytes, int64_t created_ms = 0,
                  const std::map<std::string, uint64_t>& shared = {}) {
    Manifest manifest;
    Entry entry;
    entry.path = "file";
    entry.size = bytes;
    entry.mtime_ns = 7;
    manifest.entries.push_back(entry);
    Counts counts;
    auto work = Work::open(cache.work_folder(key), manifest, &counts);
    ASSERT_TRUE(work) << work.error().text;
    ASSERT_TRUE((*work)->put(0, std::string(bytes, 'x')));
    ASSERT_TRUE((*work)->finish(false));
    SetInfo info;
    info.key = key;
    info.source = "/source/" + key;
    info.bytes = bytes;
    info.files = 1;
    info.created_ms = created_ms;
    info.shared = shared;
    ASSERT_TRUE(cache.commit(info));
  }

  static std::string key_of(int number) {
    std::string key(64, '0');
    for (size_t at = 63; number > 0; number /= 10, --at) key[at] = static_cast<char>('0' + number % 10);
    return key;
  }

  std::string folder_;
};

SetUse use(const char* key, uint64_t bytes, int64_t used_ms, bool held = false) {
  return {key, bytes, used_ms, held};
}

TEST(DataEviction, the_least_recently_used_leave_and_only_as_many_as_needed) {
  Room room;
  room.limit = 100;
  room.held = 90;
  room.free = 1000;
  room.need = room.more = 20;
  const auto victims = choose_victims({use("new", 30, 9), use("old", 30, 1), use("middle", 30, 5)}, room);
  ASSERT_TRUE(victims);
  EXPECT_EQ(*victims, std::vector<std::string>{"old"});
}

TEST(DataEviction, what_is_held_stays_and_nothing_leaves_in_vain) {
  Room room;
  room.limit = 100;
  room.held = 90;
  room.free = 1000;
  room.need = room.more = 50;
  const auto victims = choose_victims({use("a", 30, 1, true), use("b", 30, 2), use("c", 30, 3, true)}, room);
  ASSERT_FALSE(victims);
  EXPECT_EQ(victims.error().code, Errc::kNoSpace);
  room.need = 101;
  const auto larger = choose_victims({use("b", 90, 2)}, room);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code, Errc::kInvalid);
}

TEST(DataEviction, the_disk_keeps_its_floor) {
  Room room;
  room.held = 60;
  room.free = 30;
  room.floor = 20;
  room.need = room.more = 15;
  const auto victims = choose_victims({use("a", 30, 1), use("b", 30, 2)}, room);
  ASSERT_TRUE(victims);
  EXPECT_EQ(*victims, std::vector<std::string>{"a"});
  room.more = 5;  // the rest is on the disk already
  EXPECT_TRUE(choose_victims({use("a", 30, 1)}, room)->empty());
}

// 10,000 random schedules: what leaves is never held, and what is left fits whenever it can.
TEST(DataEviction, random_schedules_never_evict_what_is_held) {
  std::mt19937 random(3);
  for (int round = 0; round < 10000; ++round) {
    std::vector<SetUse> sets;
    Room room;
    uint64_t loose = 0;
    for (size_t i = random() % 12; i > 0; --i) {
      sets.push_back({std::to_string(i), random() % 50, static_cast<int64_t>(random() % 100), random() % 3 == 0});
      room.held += sets.back().bytes;
      if (!sets.back().held) loose += sets.back().bytes;
    }
    room.limit = random() % 2 == 0 ? 0 : 1 + random() % 300;
    room.free = random() % 200;
    room.floor = random() % 50;
    room.need = random() % 100;
    room.more = room.need - std::min<uint64_t>(room.need, random() % 20);
    const auto victims = choose_victims(sets, room);
    const uint64_t over =
        std::max(room.limit > 0 && room.held + room.need > room.limit ? room.held + room.need - room.limit : 0,
                 room.more + room.floor > room.free ? room.more + room.floor - room.free : 0);
    if (!victims) {
      ASSERT_TRUE(over > loose || room.need > room.limit);
      continue;
    }
    uint64_t freed = 0;
    std::set<std::string> gone(victims->begin(), victims->end());
    ASSERT_EQ(gone.size(), victims->size());
    for (const SetUse& set : sets) {
      if (gone.count(set.key) == 0) continue;
      ASSERT_FALSE(set.held);
      freed += set.bytes;
    }
    ASSERT_GE(freed, over);
  }
}

TEST_F(DataCache, a_set_appears_whole_and_is_evicted_whole) {
  const NodeCache cache = open();
  EXPECT_FALSE(cache.has(key_of(1)));
  add(cache, key_of(1), 1000);
  EXPECT_TRUE(cache.has(key_of(1)));
  const auto sets = cache.list();
  ASSERT_TRUE(sets);
  ASSERT_EQ(sets->size(), 1U);
  EXPECT_EQ((*sets)[0].bytes, 1000U);
  EXPECT_FALSE((*sets)[0].leased);
  EXPECT_TRUE(*cache.evict(key_of(1)));
  EXPECT_FALSE(cache.has(key_of(1)));
  EXPECT_TRUE(cache.list()->empty());
}

TEST_F(DataCache, what_says_that_a_set_is_complete_is_on_the_disk_before_the_set_appears) {
  const NodeCache cache = open();
  {
    const std::lock_guard<std::mutex> lock(synced_mutex);
    synced.clear();
  }
  add(cache, key_of(1), 1000);
  const std::lock_guard<std::mutex> lock(synced_mutex);
  const std::string front = cache.work_folder(key_of(1)) + "/set.json";
  EXPECT_TRUE(std::any_of(synced.begin(), synced.end(),
                          [&](const std::string& path) { return path.compare(0, front.size(), front) == 0; }));
}

TEST_F(DataCache, a_leased_or_pinned_set_stays) {
  const NodeCache cache = open();
  add(cache, key_of(1), 10);
  {
    const auto lease = cache.lease(key_of(1));
    ASSERT_TRUE(lease);
    EXPECT_FALSE(*cache.evict(key_of(1)));
    EXPECT_TRUE((*cache.list())[0].leased);
    ASSERT_TRUE(cache.collect(true));
    EXPECT_TRUE(cache.has(key_of(1)));
  }
  ASSERT_TRUE(cache.pin(key_of(1), true));
  EXPECT_FALSE(*cache.evict(key_of(1)));
  ASSERT_TRUE(cache.pin(key_of(1), false));
  EXPECT_TRUE(*cache.evict(key_of(1)));
}

TEST_F(DataCache, a_lease_ends_when_its_holder_is_killed) {
  const NodeCache cache = open();
  add(cache, key_of(1), 10);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const auto lease = cache.lease(key_of(1));
    const bool told = lease && ::write(ready[1], "x", 1) == 1;
    if (told) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(*cache.evict(key_of(1)));
  ::kill(holder, SIGKILL);
  ASSERT_EQ(::waitpid(holder, nullptr, 0), holder);
  EXPECT_TRUE(*cache.evict(key_of(1)));
  ::close(ready[0]);
  ::close(ready[1]);
}

// Holders and evictors at once: whoever has a lease and finds the set has it until he lets it go.
TEST_F(DataCache, no_leased_set_is_evicted_by_others_at_once) {
  const NodeCache cache = open();
  constexpr int kSets = 4;
  std::atomic<int> found{0}, lost{0}, evicted{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      for (int round = 0; round < 400; ++round) {
        const std::string key = key_of(1 + static_cast<int>(random() % kSets));
        const auto lease = cache.lease(key);
        if (!lease) ++lost;
        if (!cache.has(key)) {
          const auto alone = cache.fetch_lock(key);
          if (!cache.has(key)) add(cache, key, 100);
        }
        for (int look = 0; look < 3; ++look) {
          if (::access((cache.tree(key) + "/file").c_str(), R_OK) != 0) ++lost;
          std::this_thread::yield();
        }
        ++found;
      }
    });
  std::thread evictor([&] {
    std::mt19937 random(99);
    while (!stop) {
      const auto gone = cache.evict(key_of(1 + static_cast<int>(random() % kSets)));
      if (gone && *gone) ++evicted;
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  evictor.join();
  EXPECT_EQ(found, 1200);
  EXPECT_EQ(lost, 0);
  EXPECT_GT(evicted, 0);
}

TEST_F(DataCache, room_is_made_by_evicting_the_oldest) {
  const NodeCache cache = open(1000);
  add(cache, key_of(1), 400);
  add(cache, key_of(2), 400);
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ::utimensat(AT_FDCWD, (cache.set_folder(key_of(1)) + "/used").c_str(), old, 0);
  ASSERT_TRUE(cache.make_room(key_of(3), 500, 500));
  // The one that was made first counts as used then, so that its mark alone does not make it older than it is.
  EXPECT_NE(cache.has(key_of(1)), cache.has(key_of(2)));
  const auto too_much = cache.make_room(key_of(3), 1001, 1001);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, Errc::kInvalid);
}

TEST_F(DataCache, what_is_mended_of_a_set_counts_once) {
  const NodeCache cache = open(1000);
  add(cache, key_of(1), 600);
  add(cache, key_of(2), 300);
  const auto lease = cache.lease(key_of(2));
  const auto mended = cache.make_room(key_of(1), 500, 500);
  EXPECT_TRUE(mended) << mended.error().text;
  EXPECT_TRUE(cache.has(key_of(1)));
}

TEST_F(DataCache, what_a_killed_fetch_has_left_makes_room) {
  const NodeCache cache = open(1000);
  add(cache, key_of(1), 300);
  ASSERT_TRUE(make_directories(cache.work_folder(key_of(2)) + "/tree"));
  ASSERT_TRUE(replace_file(cache.work_folder(key_of(2)) + "/wanted", "600 /source\n"));
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  for (const char* name : {"/tree", ""})
    ASSERT_EQ(::utimensat(AT_FDCWD, (cache.work_folder(key_of(2)) + name).c_str(), old, 0), 0);
  {
    const auto fetching = cache.fetch_lock(key_of(2));
    const auto lease = cache.lease(key_of(1));
    EXPECT_FALSE(cache.make_room(key_of(3), 500, 500));
  }
  ASSERT_TRUE(cache.make_room(key_of(3), 500, 500));
  EXPECT_NE(::access(cache.work_folder(key_of(2)).c_str(), F_OK), 0);
  EXPECT_TRUE(cache.has(key_of(1)));
}

TEST_F(DataCache, what_fetches_and_evictions_leave_behind_is_collected) {
  const NodeCache cache = open();
  ASSERT_TRUE(make_directories(cache.folder() + "/trash/x/y"));
  ASSERT_TRUE(make_directories(cache.work_folder(key_of(5)) + "/tree"));
  ASSERT_TRUE(cache.collect(false));
  EXPECT_NE(::access((cache.folder() + "/trash/x").c_str(), F_OK), 0);
}

// On a file system that nodes share each has a work folder of its own, and nobody else can see whether it lives.
TEST_F(DataCache, what_another_node_has_left_is_collected_after_a_day) {
  const NodeCache cache = open();
  const std::string other = cache.folder() + "/unfinished/" + key_of(5) + ".another-node";
  ASSERT_TRUE(make_directories(other + "/parts"));
  ASSERT_TRUE(make_directories(other + "/tree"));
  ASSERT_TRUE(replace_file(other + "/parts/x.journal", "x"));
  ASSERT_TRUE(cache.collect(false));
  ASSERT_TRUE(cache.collect(true));
  EXPECT_EQ(::access(other.c_str(), F_OK), 0) << "it may be at work there";
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  for (const std::string& path : {other + "/parts/x.journal", other + "/parts", other + "/tree", other})
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  ASSERT_TRUE(cache.collect(false));
  EXPECT_NE(::access(other.c_str(), F_OK), 0);
}

TEST_F(DataCache, two_may_empty_the_trash_at_once) {
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(make_directories(fmt::format("{}/t/{}/{}", folder_, i % 10, i)));
    Status one, two;
    std::thread other([&] { one = remove_tree(folder_ + "/t"); });
    two = remove_tree(folder_ + "/t");
    other.join();
    ASSERT_TRUE(one) << one.error().text;
    ASSERT_TRUE(two) << two.error().text;
  }
}

TEST_F(DataCache, the_links_of_a_job_go_when_its_lease_has) {
  const NodeCache cache = open();
  const std::string place = cache.folder() + "/jobs/12";
  EXPECT_EQ(job_of(folder_ + "/cache", place), "12");
  EXPECT_EQ(job_of(folder_ + "/cache", folder_ + "/data"), "");
  EXPECT_EQ(job_of(folder_ + "/cache", place + "/train"), "");
  EXPECT_EQ(job_of(folder_ + "/cache", cache.folder() + "/jobs/"), "");
  add(cache, key_of(1), 10);
  {
    const auto lease = cache.job_lease("12");
    ASSERT_TRUE(lease);
    ASSERT_TRUE(link_to(place, "train", cache.tree(key_of(1))));
    ASSERT_TRUE(cache.tidy());
    EXPECT_EQ(::access((place + "/train/file").c_str(), R_OK), 0);
  }
  ASSERT_TRUE(cache.tidy());
  EXPECT_NE(::access(place.c_str(), F_OK), 0);
  EXPECT_TRUE(cache.has(key_of(1))) << "a link is removed, not what it leads to";
}

TEST_F(DataCache, locks_of_nothing_go) {
  const NodeCache cache = open();
  const auto locks = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(cache.folder() + "/locks"))
      names.insert(entry.path().filename().string());
    return names;
  };
  add(cache, key_of(1), 10);
  ASSERT_TRUE(cache.lease(key_of(1)));
  ASSERT_TRUE(cache.lease(key_of(2)));
  ASSERT_TRUE(cache.fetch_lock(key_of(2)));
  ASSERT_TRUE(cache.job_lease("12"));
  {
    const auto held = cache.lease(key_of(3));
    ASSERT_TRUE(cache.tidy());
    EXPECT_EQ(locks(), (std::set<std::string>{key_of(1) + ".lease", key_of(3) + ".lease"}));
  }
  ASSERT_TRUE(cache.tidy());
  EXPECT_EQ(locks(), (std::set<std::string>{key_of(1) + ".lease"}));
}

// Whoever waits for a lock whose file is removed meanwhile has no lock that others see: he takes that of the new file.
TEST_F(DataCache, a_lock_is_one_also_while_its_file_is_removed) {
  const NodeCache cache = open();
  const std::string file = cache.folder() + "/locks/x.lease";
  auto first = Lock::wait(file, Lock::Kind::kAlone);
  ASSERT_TRUE(first);
  std::atomic<bool> holds{false};
  std::thread waiter([&] {
    const auto second = Lock::wait(file, Lock::Kind::kAlone);
    holds = second && *second;
    const auto third = Lock::attempt(file, Lock::Kind::kAlone);
    holds = holds && third && !*third;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::unlink(file.c_str());
  *first = Lock();
  waiter.join();
  EXPECT_TRUE(holds);
}

// Sets may share files both ways, if one was evicted and fetched again in between. They are on the disk once.
TEST_F(DataCache, what_two_sets_share_counts_once) {
  const NodeCache cache = open(1000);
  add(cache, key_of(1), 400, 7, {{key_of(2), 400}});
  add(cache, key_of(2), 400, 5, {{key_of(1), 400}});
  const auto one = cache.lease(key_of(1)), two = cache.lease(key_of(2));
  EXPECT_TRUE(cache.make_room(key_of(3), 600, 600));
  EXPECT_FALSE(cache.make_room(key_of(3), 700, 700));
}

TEST_F(DataCache, the_folder_is_its_users_alone) {
  const NodeCache cache = open();
  struct stat status {};
  ASSERT_EQ(::stat(cache.folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  ASSERT_EQ(::chmod(cache.folder().c_str(), 0755), 0);
  open();
  ASSERT_EQ(::stat(cache.folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

}  // namespace
}  // namespace dl::data
