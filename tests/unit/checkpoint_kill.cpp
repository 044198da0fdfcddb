// SPDX-License-Identifier: Apache-2.0
// kill -9 at random moments of saving, in one and in several processes: the newest committed checkpoint verifies, holds
// exactly the state of its train step, and is not older than the last one that was reported as saved. Also of thousands
// of packed tensors, and through levels on two nodes, of which one may be lost besides.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "checkpoint/client/save_plan.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr size_t kWeights = 30000;
constexpr int kSaveFailed = 5;  // exit status of a child

// What survives the child: the newest train step that save() reported as saved, on any rank.
class Shared {
 public:
  Shared()
      : acknowledged_(static_cast<std::atomic<int64_t>*>(
            mmap(nullptr, sizeof *acknowledged_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (acknowledged_ == MAP_FAILED) std::abort();
    acknowledged_->store(-1);
  }
  ~Shared() { munmap(acknowledged_, sizeof *acknowledged_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  int64_t acknowledged() const { return acknowledged_->load(); }
  void acknowledge(int64_t step) {
    int64_t seen = acknowledged_->load();
    while (seen < step && !acknowledged_->compare_exchange_weak(seen, step)) {
    }
  }

 private:
  std::atomic<int64_t>* acknowledged_;
};

// What is saved, and through what.
struct Way {
  int ranks = 1;
  size_t small = 0;     // tensors of four bytes besides, enough to be packed
  bool levels = false;  // each rank on a node of its own, with a node-local level and a partner
};

class State {
 public:
  explicit State(const Way& way) : pattern_(kWeights), small_(way.small) {}
  void fill(int64_t step) {
    pattern_.fill(step);
    for (size_t i = 0; i < small_.size(); ++i) small_[i] = static_cast<uint32_t>(static_cast<size_t>(step) * 31 + i);
  }
  void clear() {
    pattern_.clear();
    std::fill(small_.begin(), small_.end(), 0xDEADBEEFU);
  }
  Status enroll(Context& context) {
    for (size_t i = 0; i < small_.size(); ++i)
      DL_TRY(context.registry().add_tensor(("small/" + std::to_string(i)).c_str(), DLCKPT_U32, 0, nullptr, nullptr,
                                           nullptr, &small_[i], DLCKPT_REPLICATED));
    return pattern_.enroll(context);
  }
  friend bool operator==(const State& a, const State& b) { return a.pattern_ == b.pattern_ && a.small_ == b.small_; }

 private:
  PatternState pattern_;
  std::vector<uint32_t> small_;
};

std::string shared_directory(const TempDir& dir) {
  return dir.path() + "/shared";
}

Settings settings_of(const TempDir& dir, const Way& way, int rank, const std::string& run_id) {
  Settings settings = settings_for(shared_directory(dir), rank, way.ranks, run_id);
  settings.keep = 2;
  if (!way.levels) return settings;
  settings.local_dir = dir.path() + "/local";
  settings.partner = true;
  settings.node = "node" + std::to_string(rank);
  return settings;
}

// A child that was not killed says why it ends.
[[noreturn]] void give_up(const Settings& settings, const Error& error, int status) {
  std::fprintf(stderr, "%s, rank %d, gave up: %s\n", settings.run_id.c_str(), settings.rank, error.text.c_str());
  _exit(status);
}

[[noreturn]] void save_for_ever(Settings settings, const Way& way, int64_t first, Shared* shared, Settings::Mode mode,
                                double timeout_s = 5) {
  settings.timeout_s = timeout_s;
  settings.mode = mode;
  auto context = open_context(settings);
  if (!context) give_up(settings, context.error(), 3);
  State state(way);
  for (int64_t step = first;; ++step) {
    state.fill(step);
    if (auto enrolled = state.enroll(**context); !enrolled) give_up(settings, enrolled.error(), 4);
    if (auto saved = (*context)->save(step); !saved) give_up(settings, saved.error(), kSaveFailed);
    // In the background: what has become durable meanwhile, and on with the next train step, which changes the state.
    int64_t durable = step;
    if (mode != Settings::kSync) {
      auto ended = (*context)->wait(0, &durable);
      if (!ended && ended.error().code != Errc::kTimeout) give_up(settings, ended.error(), kSaveFailed);
    }
    shared->acknowledge(durable);
  }
}

// What the next start, of as many ranks, goes on from; its state is that of the train step.
int64_t restored_by_all(const TempDir& dir, const Way& way, const std::string& run_id) {
  std::atomic<int64_t> found{-1};
  run_ranks(way.ranks, [&](int rank) {
    auto context = open_context(settings_of(dir, way, rank, run_id));
    ASSERT_TRUE(context) << context.error().text;
    State state(way), expected(way);
    state.clear();
    ASSERT_TRUE(state.enroll(**context));
    std::string note;
    auto step = (*context)->restore(DLCKPT_LATEST, &note);
    ASSERT_TRUE(step) << step.error().text;
    expected.fill(*step);
    EXPECT_TRUE(state == expected) << "not the state of train step " << *step;
    EXPECT_TRUE(way.levels || note.empty()) << note;  // with levels it tells what was brought from a node
    if (rank == 0) found = *step;
  });
  return found;
}

// What is left is whole, not older than what was acknowledged, and loads; *next is the train step to go on with.
void expect_newest(const TempDir& dir, const Way& way, const std::string& run_id, int64_t acknowledged, int64_t* next) {
  const std::string shared = shared_directory(dir);
  const auto all_verify = [&] {
    auto names = scan_checkpoints(posix_io(), shared);
    EXPECT_TRUE(names);
    for (const CheckpointName& name : *names) {
      auto verified = verify_checkpoint(posix_io(), shared, name);
      EXPECT_TRUE(verified) << verified.error().text;
    }
    return names->size();
  };
  // Nodes may hold what the directory does not, but nothing that was acknowledged.
  if (all_verify() == 0 && acknowledged < 0) return;
  const int64_t restored = restored_by_all(dir, way, run_id);
  ASSERT_GE(restored, acknowledged);
  ASSERT_LE(restored, std::max(acknowledged, *next - 1) + 2);  // one committed and one about to be, unheard of
  ASSERT_GT(all_verify(), 0U);
  ASSERT_TRUE(leftovers(shared).empty()) << leftovers(shared).front();
  *next = restored + 1;
}

void lose_node(const TempDir& dir, const std::string& node) {
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() + "/local"))
    std::filesystem::remove_all(entry.path() / node);
}

// How long the children took until their first save was reported, at most a minute.
unsigned first_save_us(const Shared& shared) {
  const auto begin = std::chrono::steady_clock::now();
  unsigned passed = 0;
  while (shared.acknowledged() < 0 && passed < 60000000) {
    usleep(500);
    passed = static_cast<unsigned>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count());
  }
  return passed;
}

void kill_rounds(const Way& way, int rounds) {
  const TempDir dir;
  std::filesystem::create_directory(shared_directory(dir));
  if (way.levels) std::filesystem::create_directory(dir.path() + "/local");
  Shared shared;
  std::mt19937 random(static_cast<unsigned>(getpid()));
  int64_t next = 0;
  int with_progress = 0, idle = 0, busy = 0;
  const unsigned usual_us = way.ranks == 1 ? 25000 : 120000, most_us = 4000000;
  unsigned longest_us = usual_us;
  for (int round = 0; round < rounds; ++round) {
    const int64_t before = shared.acknowledged();
    const std::string run_id = "round" + std::to_string(round);
    std::vector<pid_t> children;
    for (int rank = 0; rank < way.ranks; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0)
        save_for_ever(settings_of(dir, way, rank, run_id), way, next, &shared,
                      round % 2 ? Settings::kAsync : Settings::kSync);
      children.push_back(pid);
    }
    // Few rounds on a slow disk or a busy machine would all end before the first save, were they of a fixed length.
    if (round == 0)
      longest_us = std::max(usual_us, std::min(most_us, first_save_us(shared) * 5 / 2));
    else
      usleep(static_cast<useconds_t>(random() % longest_us));
    for (const pid_t pid : children) {
      kill(pid, SIGKILL);
      if (random() % 2) usleep(random() % 300);
    }
    for (const pid_t pid : children) {
      int status = 0;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      ASSERT_TRUE(WIFSIGNALED(status)) << "a child ended by itself: " << WEXITSTATUS(status);
    }
    if (way.levels && random() % 4 == 0) lose_node(dir, "node" + std::to_string(random() % 2));
    const int64_t acknowledged = shared.acknowledged();
    with_progress += acknowledged > before;
    idle = acknowledged > before ? 0 : idle + 1;
    busy = acknowledged > before ? busy + 1 : 0;
    if (idle >= 8 && longest_us < most_us) {  // a slow or busy machine: let them come further
      longest_us *= 2;
      idle = 0;
    } else if (busy >= 8 && longest_us > usual_us) {  // no longer; of thousands of rounds each would last seconds
      longest_us /= 2;
      busy = 0;
    }
    expect_newest(dir, way, "after " + run_id, acknowledged, &next);
    if (testing::Test::HasFailure()) return;
    if (std::getenv("DL_KILL_PROGRESS") && (round + 1) % 50 == 0)
      std::fprintf(stderr, "\r%d of %d rounds, train step %lld ", round + 1, rounds, static_cast<long long>(next));
  }
  EXPECT_GT(with_progress, 0) << "of " << rounds << " rounds, the last of at most " << longest_us
                              << " us, none came to a save: the machine is too slow for this test";
  if (way.levels) return;
  // What kills between commit and retirement left is retired by the next save.
  ASSERT_TRUE(save_pattern(shared_directory(dir), next, posix_io(), 2, kWeights));
  EXPECT_LE(scan_checkpoints(posix_io(), shared_directory(dir))->size(), 2U);
}

// DL_KILL_ROUNDS asks for more (tests/bench/checkpoint/kill uses thousands). AddressSanitizer looks at the code, which
// is the same in each round, and makes a fork take many times as long.
int rounds(int usual) {
#if defined(__SANITIZE_ADDRESS__)
  usual /= 5;
#endif
  const char* text = std::getenv("DL_KILL_ROUNDS");
  return text ? std::atoi(text) : usual;
}

// Rank 0 alone dies, in the midst of a save or between two. The others hear of it by a timeout and get an error, not a
// checkpoint; the next start goes on from the newest.
void kill_coordinator(int rounds) {
  const TempDir dir;
  const Way way{3};
  std::filesystem::create_directory(shared_directory(dir));
  Shared shared;
  std::mt19937 random(static_cast<unsigned>(getpid()));
  int64_t next = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<pid_t> children;
    for (int rank = 0; rank < 3; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0)
        save_for_ever(settings_of(dir, way, rank, "round" + std::to_string(round)), way, next, &shared, Settings::kSync,
                      0.15);
      children.push_back(pid);
    }
    usleep(static_cast<useconds_t>(20000 + random() % 100000));
    kill(children[0], SIGKILL);
    for (const pid_t pid : children) {
      int status = 0;
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      if (pid == children[0]) continue;
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kSaveFailed) << status;
    }
    expect_newest(dir, way, "after round" + std::to_string(round), shared.acknowledged(), &next);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(CheckpointKill, OneProcess) {
  kill_rounds(Way{1}, rounds(200));
}
TEST(CheckpointKill, ThreeProcesses) {
  kill_rounds(Way{3}, rounds(50));
}
TEST(CheckpointKill, PackedTensorsOfOneProcess) {
  kill_rounds(Way{1, kPackFrom}, rounds(20));
}
TEST(CheckpointKill, PackedTensorsOfThreeProcesses) {
  kill_rounds(Way{3, kPackFrom}, rounds(10));
}
TEST(CheckpointKill, TwoNodesWithALevelOfTheirOwnAndAPartner) {
  kill_rounds(Way{2, 0, true}, rounds(20));
}
TEST(CheckpointKill, PackedTensorsOfTwoNodes) {
  kill_rounds(Way{2, kPackFrom, true}, rounds(10));
}
TEST(CheckpointKill, OnlyRank0) {
  kill_coordinator(8);
}

}  // namespace
}  // namespace dl::ckpt::test
