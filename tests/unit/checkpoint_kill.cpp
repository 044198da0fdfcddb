// SPDX-License-Identifier: Apache-2.0
// kill -9 at random moments of saving, in one and in several processes: the newest committed checkpoint verifies, holds
// exactly the state of its train step, and is not older than the last one that was reported as saved.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>

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

[[noreturn]] void save_for_ever(const std::string& dir, int rank, int ranks, const std::string& run_id, int64_t first,
                                Shared* shared, Settings::Mode mode, double timeout_s = 5) {
  Settings settings = settings_for(dir, rank, ranks, run_id);
  settings.keep = 2;
  settings.timeout_s = timeout_s;
  settings.mode = mode;
  auto context = open_context(settings);
  if (!context) {
    write(2, context.error().text.c_str(), context.error().text.size());
    _exit(3);
  }
  PatternState state(kWeights);
  for (int64_t step = first;; ++step) {
    state.fill(step);
    if (!state.enroll(**context)) _exit(4);
    if (!(*context)->save(step)) _exit(kSaveFailed);
    // In the background: what has become durable meanwhile, and on with the next train step, which changes the state.
    int64_t durable = step;
    if (mode != Settings::kSync) {
      auto ended = (*context)->wait(0, &durable);
      if (!ended && ended.error().code != Errc::kTimeout) _exit(kSaveFailed);
    }
    shared->acknowledge(durable);
  }
}

// What is left is whole, not older than what was acknowledged, and loads; *next is the train step to go on with.
void expect_newest(const std::string& dir, int64_t acknowledged, int64_t* next) {
  auto names = scan_checkpoints(posix_io(), dir);
  ASSERT_TRUE(names);
  for (const CheckpointName& name : *names) {
    auto verified = verify_checkpoint(posix_io(), dir, name);
    ASSERT_TRUE(verified) << verified.error().text;
  }
  if (acknowledged < 0 && names->empty()) return;
  ASSERT_FALSE(names->empty());
  std::string note;
  auto restored = restore_pattern(dir, &note, posix_io(), kWeights);
  ASSERT_TRUE(restored) << restored.error().text;
  ASSERT_EQ(note, "");
  ASSERT_GE(*restored, acknowledged);
  ASSERT_LE(*restored, std::max(acknowledged, *next - 1) + 2);  // one committed and one about to be, unheard of
  ASSERT_TRUE(leftovers(dir).empty()) << leftovers(dir).front();
  *next = *restored + 1;
}

void kill_rounds(int ranks, int rounds) {
  const TempDir dir;
  Shared shared;
  std::mt19937 random(static_cast<unsigned>(getpid()));
  int64_t next = 0;
  int with_progress = 0, idle = 0;
  unsigned longest_us = ranks == 1 ? 25000 : 120000;
  for (int round = 0; round < rounds; ++round) {
    const int64_t before = shared.acknowledged();
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0)
        save_for_ever(dir.path(), rank, ranks, "round" + std::to_string(round), next, &shared,
                      round % 2 ? Settings::kAsync : Settings::kSync);
      children.push_back(pid);
    }
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
    const int64_t acknowledged = shared.acknowledged();
    with_progress += acknowledged > before;
    idle = acknowledged > before ? 0 : idle + 1;
    if (idle >= 8 && longest_us < 4000000) {  // a slow or busy machine: let them come further
      longest_us *= 2;
      idle = 0;
    }
    expect_newest(dir.path(), acknowledged, &next);
    if (testing::Test::HasFatalFailure()) return;
    if (std::getenv("DL_KILL_PROGRESS") && (round + 1) % 50 == 0)
      std::fprintf(stderr, "\r%d of %d rounds, train step %lld ", round + 1, rounds, static_cast<long long>(next));
  }
  EXPECT_GT(with_progress, 0);
  // What kills between commit and retirement left is retired by the next save.
  ASSERT_TRUE(save_pattern(dir.path(), next, posix_io(), 2, kWeights));
  EXPECT_LE(scan_checkpoints(posix_io(), dir.path())->size(), 2U);
}

// DL_KILL_ROUNDS asks for more (tests/bench/checkpoint/kill uses thousands).
int rounds(int usual) {
  const char* text = std::getenv("DL_KILL_ROUNDS");
  return text ? std::atoi(text) : usual;
}

// Rank 0 alone dies, in the midst of a save or between two. The others hear of it by a timeout and get an error, not a
// checkpoint; the next start goes on from the newest.
void kill_coordinator(int rounds) {
  const TempDir dir;
  Shared shared;
  std::mt19937 random(static_cast<unsigned>(getpid()));
  int64_t next = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<pid_t> children;
    for (int rank = 0; rank < 3; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0)
        save_for_ever(dir.path(), rank, 3, "round" + std::to_string(round), next, &shared, Settings::kSync, 0.15);
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
    expect_newest(dir.path(), shared.acknowledged(), &next);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(CheckpointKill, OneProcess) {
  kill_rounds(1, rounds(200));
}
TEST(CheckpointKill, ThreeProcesses) {
  kill_rounds(3, rounds(50));
}
TEST(CheckpointKill, OnlyRank0) {
  kill_coordinator(8);
}

}  // namespace
}  // namespace dl::ckpt::test
