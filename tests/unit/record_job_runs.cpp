// SPDX-License-Identifier: Apache-2.0
// The comment of several dlruns of one job: whatever their order, the last one that is written is the newest.
#include "launcher/record/job_runs.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

namespace dl::record {
namespace {

// Lets threads go on one at a time, at each step a random one of those that still run.
class Turns {
 public:
  Turns(int threads, uint32_t seed) : running_(threads), random_(seed) {}
  // Waits until it is this thread's turn to do its next step.
  void next(int thread) {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_.insert(thread);
    if (static_cast<int>(waiting_.size()) == running_) choose();
    changed_.wait(lock, [&] { return chosen_ == thread; });
    chosen_ = -1;
    waiting_.erase(thread);
  }
  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --running_;
    if (!waiting_.empty() && static_cast<int>(waiting_.size()) == running_) choose();
  }

 private:
  void choose() {
    auto at = waiting_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_() % waiting_.size()));
    chosen_ = *at;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> waiting_;
  int running_, chosen_ = -1;
  std::mt19937 random_;
};

using Comment = std::map<int, JobState>;

// Runs that each go through these states, and write the comment after each change, at the same time.
Comment last_comment(int runs, uint32_t seed) {
  constexpr JobState kStates[] = {JobState::kDeploy, JobState::kProcessing, JobState::kCompleted};
  Comment states, comment;  // the turns guard them
  Turns turns(runs, seed);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(runs));
  for (int run = 1; run <= runs; ++run)
    threads.emplace_back([&, run] {
      for (const JobState state : kStates) {
        turns.next(run);
        states[run] = state;
        const auto read = [&] {
          turns.next(run);
          std::vector<RunState> others;
          for (const auto& [number, its] : states)
            if (number != run) others.push_back({number, its});
          return others;
        };
        EXPECT_TRUE(write_while_changed(read, [&](const std::vector<RunState>& others) {
          turns.next(run);
          comment = {{run, state}};
          for (const RunState& other : others) comment[other.number] = other.state;
          return true;
        }));
      }
      turns.end();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(comment, states) << runs << " runs, seed " << seed;
  return comment;
}

TEST(JobRuns, TheLastCommentOfSeveralRunsIsTheNewestInWhicheverOrderTheyReadAndWrite) {
  for (uint32_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed)
    last_comment(2 + static_cast<int>(seed % 3), seed);
}

TEST(JobRuns, ACommentThatCannotBeWrittenOrNeverComesToRestIsToldToTheCaller) {
  int writes = 0;
  const auto one = [] { return std::vector<RunState>{{2, JobState::kProcessing}}; };
  EXPECT_FALSE(write_while_changed(one, [&](const auto&) { return ++writes < 1; }));
  EXPECT_EQ(writes, 1);
  int reads = 0;
  const auto restless = [&] {
    return std::vector<RunState>{{2, ++reads % 2 == 0 ? JobState::kProcessing : JobState::kStoring}};
  };
  EXPECT_FALSE(write_while_changed(restless, [](const auto&) { return true; }));
  EXPECT_LE(reads, 100);
}

TEST(JobRuns, ARunAloneWritesOnce) {
  int writes = 0;
  EXPECT_TRUE(write_while_changed([] { return std::vector<RunState>(); }, [&](const auto&) { return ++writes > 0; }));
  EXPECT_EQ(writes, 1);
}

}  // namespace
}  // namespace dl::record
