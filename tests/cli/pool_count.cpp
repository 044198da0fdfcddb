// SPDX-License-Identifier: Apache-2.0
// For tests of dlrun --servers MIN:MAX: learners add 1 to each of 100 keys in each of ROUNDS rounds, and at last each
// key has to hold exactly ROUNDS x learners. How many servers there should be is read from the file `wanted`.
//
//   dlrun --framework cpp -n N --servers MIN:MAX -- ./pool_count ROUNDS [MILLISECONDS]     the least time of a round
//
// Compiled with -DOVER_MPI, the learners are an MPI program: in each round they add up their numbers, too.
#include <unistd.h>
#include <dlpool.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
#ifdef OVER_MPI
#include <mpi.h>
#endif

namespace {

constexpr int kKeys = 100;

class Counts {
 public:
  std::string apply(const dl::PoolKey& key, std::string_view bytes) {
    if (bytes != "+") throw std::runtime_error("this is no addition");
    if (!told_) {
      told_ = true;
      std::printf("serves\n");
      std::fflush(stdout);
    }
    return std::to_string(++counts_[key]);
  }
  std::string read(const dl::PoolKey& key, std::string_view /*bytes*/) const {
    const Count* count = counts_.find(key);
    return count == nullptr ? "0" : std::to_string(count->number);
  }
  std::string save(int slot) const { return counts_.save(slot); }
  void load(int slot, std::string_view state) { counts_.load(slot, state); }
  void drop(int slot) { counts_.drop(slot); }
  int wanted(const dl::PoolLoad& load) const {
    int number = 0;
    std::ifstream("wanted") >> number;
    return number > 0 ? number : load.members;
  }

 private:
  struct Count {
    long number = 0;
    long operator++() { return ++number; }
    std::string save() const { return std::to_string(number); }
    void load(std::string_view bytes) { number = std::stol(std::string(bytes)); }
  };
  dl::PoolMap<Count> counts_;
  bool told_ = false;
};

std::vector<dl::PoolAnswer> of_all_keys(dl::PoolClient* pool, bool read) {
  std::vector<dl::PoolCall> calls;
  for (int key = 0; key < kKeys; ++key) calls.push_back({read, "key/" + std::to_string(key), read ? "" : "+"});
  return pool->call(calls);
}

// False: MPI_COMM_WORLD is not that of the learners.
bool meets(long learners, long round) {
#ifdef OVER_MPI
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long sum = 0;
  MPI_Allreduce(&round, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  return size == learners && sum == learners * round;
#else
  return learners > 0 && round > 0;
#endif
}

int learn(long rounds, long pause_ms) {
  const std::string rank = std::getenv("DL_RANK");
  const long learners = std::strtol(std::getenv("DL_WORLD_SIZE"), nullptr, 10);
  dl::PoolClient pool;
  for (long round = 1; round <= rounds; ++round) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(pause_ms);
    for (const dl::PoolAnswer& answer : of_all_keys(&pool, false))
      if (!answer) return std::fprintf(stderr, "%s\n", answer.status.message().c_str()), 1;
    if (!meets(learners, round)) return std::fprintf(stderr, "the learners do not meet\n"), 1;
    std::ofstream("round." + rank) << round << "\n";
    std::this_thread::sleep_until(until);
  }
  std::ofstream("done." + rank) << "\n";
  for (long learner = 0; learner < learners; ++learner)
    while (::access(("done." + std::to_string(learner)).c_str(), R_OK) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  int wrong = 0;
  for (const dl::PoolAnswer& answer : of_all_keys(&pool, true))
    wrong += !answer || answer.bytes != std::to_string(rounds * learners);
  std::printf("%d keys are wrong\n", wrong);
  return wrong == 0 ? 0 : 3;
}

int serve() {
  std::printf("server %s begins as process %d\n", std::getenv("DL_ROLE_RANK"), ::getpid());
  std::fflush(stdout);
  std::ofstream(std::string("server.") + std::getenv("DL_ROLE_RANK")) << ::getpid() << "\n";
  Counts counts;
  dl::Pool<Counts> pool(&counts);
  const dl::PoolStatus status = pool.serve();
  if (!status) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (std::strcmp(std::getenv("DL_ROLE"), "server") == 0) return serve();
#ifdef OVER_MPI
  MPI_Init(&argc, &argv);
#endif
  const int status = learn(std::strtol(argv[1], nullptr, 10), argc > 2 ? std::strtol(argv[2], nullptr, 10) : 0);
#ifdef OVER_MPI
  MPI_Finalize();
#endif
  return status;
}
