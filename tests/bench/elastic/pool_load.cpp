// SPDX-License-Identifier: Apache-2.0
// What tests/bench/elastic/pool measures: a pool on this host, with clients that update it. Each process is this
// program.
//   pool_load hot POLICY SHARE SECONDS   POLICY cpu or own; SHARE of updates in percent that go to one key. Prints
//                                        updates a second and mean size in the second half, and the CPU time of members
//   pool_load join MIB                   prints milliseconds until a member that is started serves, and until its whole
//                                        share of MIB has moved
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "launcher/pool/include/dlpool.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kClients = 4, kKeys = 2000;
constexpr int kFewestMembers = 2, kMostMembers = 6;  // one alone has no copies, and is compared with nobody
constexpr std::chrono::microseconds kWork{100};      // CPU time of an update

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Value {
  std::string text;
  std::string save() const { return text; }
  void load(std::string_view from) { text = from; }
};

// Each update takes kWork.
class Worker {
 public:
  explicit Worker(bool own_policy) : own_(own_policy) {}
  std::string apply(const dl::PoolKey& key, std::string_view bytes) {
    ++updates_;
    ++of_key_[std::string(key.name)];
    if (bytes.size() > 1) {  // what `join` fills the pool with
      values_[key].text = bytes;
      return {};
    }
    const auto begin = Clock::now();
    while (Clock::now() - begin < kWork) {
    }
    return {};
  }
  std::string read(const dl::PoolKey& /*key*/, std::string_view /*bytes*/) const { return {}; }
  std::string save(int slot) const { return values_.save(slot); }
  void load(int slot, std::string_view state) { values_.load(slot, state); }
  void drop(int slot) { values_.drop(slot); }

  // cpu: what an autoscaler of machines knows. own: whether the time goes into keys that another member could take.
  int wanted(const dl::PoolLoad& load) {
    uint64_t hottest = 0;
    for (const auto& [key, count] : of_key_) hottest = std::max(hottest, count);
    const double hot = updates_ == 0 ? 0 : static_cast<double>(hottest) / static_cast<double>(updates_);
    of_key_.clear();
    updates_ = 0;
    if (load.seconds <= 0) return load.members;
    const double use = load.cpu_seconds / load.seconds;
    const double movable = own_ ? load.busy_seconds / load.seconds * (1 - hot) : use;
    return load.members + (movable > 0.3 ? 1 : use < 0.05 || (own_ && movable < 0.08) ? -1 : 0);
  }

 private:
  bool own_;
  dl::PoolMap<Value> values_;
  std::map<std::string, uint64_t> of_key_;
  uint64_t updates_ = 0;
};

pid_t start(std::vector<std::string> words) {
  words.insert(words.begin(), "pool_load");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(), environ) != 0) std::exit(3);
  return pid;
}

int member(const std::string& policy) {
  Worker worker(policy == "own");
  const dl::PoolStatus status = dl::Pool<Worker>(&worker).serve();
  if (!status) std::fprintf(stderr, "member: %s\n", status.message().c_str());
  return status ? 0 : 3;
}

// Updates for so long, then says how many updates there were in the second half.
int client(int seed, int share, double seconds) {
  dl::PoolClient pool;
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto begin = Clock::now();
  long counted = 0;
  while (seconds_since(begin) < seconds) {
    std::vector<dl::PoolCall> calls;
    for (int i = 0; i < 4; ++i) {
      const bool hot = static_cast<int>(random() % 100) < share;
      calls.push_back({false, hot ? "hot" : "key " + std::to_string(random() % kKeys), "1"});
    }
    for (const dl::PoolAnswer& answer : pool.call(calls)) {
      if (!answer) return 3;
      if (seconds_since(begin) > seconds / 2) ++counted;
    }
  }
  std::printf("%ld\n", counted);
  return 0;
}

std::string here(char* folder) {
  if (::mkdtemp(folder) == nullptr) std::exit(3);
  const std::string secret = std::string(folder) + "/secret";
  ::setenv("DL_POOL_SECRET", secret.c_str(), 1);
  return secret;
}

int hot(const std::string& policy, int share, double seconds) {
  char folder[] = "/tmp/pool-load-XXXXXX";
  const std::string secret = here(folder);
  std::vector<pid_t> members, clients;
  {
    dl::PoolDirectory::Options options;
    options.secret_file = secret;
    options.min = kFewestMembers;
    options.max = kMostMembers;
    std::atomic<int> wanted{kFewestMembers};
    options.size = [&](int size, int) { wanted = size; };
    const dl::PoolDirectory directory(options);
    if (!directory.status()) return 3;
    ::setenv("DL_POOL", ("127.0.0.1:" + std::to_string(directory.port())).c_str(), 1);
    for (int i = 0; i < kFewestMembers; ++i) members.push_back(start({"member", policy}));
    while (directory.facts().members < kFewestMembers) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto begin = Clock::now();
    for (int i = 0; i < kClients; ++i)
      clients.push_back(start({"client", std::to_string(i), std::to_string(share), std::to_string(seconds)}));
    double sizes = 0;
    int looks = 0, most = kFewestMembers, running = kFewestMembers;
    auto last_start = begin;
    while (seconds_since(begin) < seconds) {
      const int present = directory.facts().members;
      // One at a time, since one that was started takes a moment to join.
      if (present >= running || seconds_since(last_start) > 2) running = present;
      if (wanted > present && running <= present) {
        members.push_back(start({"member", policy}));
        ++running;
        last_start = Clock::now();
      }
      most = std::max(most, present);
      if (seconds_since(begin) > seconds / 2) {
        sizes += present;
        ++looks;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (const pid_t pid : clients) ::waitpid(pid, nullptr, 0);
    std::printf("size %.2f most %d moved %llu\n", sizes / looks, most,
                static_cast<unsigned long long>(directory.facts().moved));
    std::fflush(stdout);
  }
  rusage before{}, after{};
  ::getrusage(RUSAGE_CHILDREN, &before);
  for (const pid_t pid : members) ::waitpid(pid, nullptr, 0);
  ::getrusage(RUSAGE_CHILDREN, &after);
  const auto cpu = [](const rusage& u) {
    return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  };
  std::printf("cpu %.2f\n", cpu(after) - cpu(before));
  ::unlink(secret.c_str());
  ::rmdir(folder);
  return 0;
}

int join(int mib) {
  char folder[] = "/tmp/pool-load-XXXXXX";
  const std::string secret = here(folder);
  std::vector<pid_t> members;
  {
    dl::PoolDirectory::Options options;
    options.secret_file = secret;
    const dl::PoolDirectory directory(options);
    ::setenv("DL_POOL", ("127.0.0.1:" + std::to_string(directory.port())).c_str(), 1);
    members.push_back(start({"member", "own"}));
    dl::PoolClient pool;
    const std::string value(64 << 10, 'x');
    for (int i = 0; i < 16 * mib; ++i)
      if (!pool.update("key " + std::to_string(i), value)) return 3;
    std::atomic<bool> stop{false};
    std::thread updates([&] {
      dl::PoolClient other;
      for (int i = 0; !stop; ++i)
        if (!other.update("key " + std::to_string(i % (16 * mib)), "1")) std::exit(3);
    });
    const auto begin = Clock::now();
    members.push_back(start({"member", "own"}));
    while (directory.facts().moved == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    const double serves = seconds_since(begin);
    while (directory.facts().unsettled > 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::printf("serves %.1f settled %.1f\n", 1e3 * serves, 1e3 * seconds_since(begin));
    stop = true;
    updates.join();
  }
  for (const pid_t pid : members) ::waitpid(pid, nullptr, 0);
  ::unlink(secret.c_str());
  ::rmdir(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "member" && argc == 3) return member(argv[2]);
  if (what == "client" && argc == 5) return client(std::atoi(argv[2]), std::atoi(argv[3]), std::atof(argv[4]));
  if (what == "hot" && argc == 5) return hot(argv[2], std::atoi(argv[3]), std::atof(argv[4]));
  if (what == "join" && argc == 3) return join(std::atoi(argv[2]));
  return 2;
}
