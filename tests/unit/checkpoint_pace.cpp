// SPDX-License-Identifier: Apache-2.0
// How often to save: what a save takes from training, and saves by time of several ranks without dlrun.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "checkpoint/client/agreed_pace.h"
#include "checkpoint/client/step_times.h"
#include "checkpoint/levels/save_history.h"
#include "tests/unit/checkpoint_faulty_io.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

namespace fs = std::filesystem;
using Milliseconds = std::chrono::milliseconds;

// Train steps, one after the other, of so many seconds each.
class Loop {
 public:
  void run(StepTimes* times, std::initializer_list<double> durations, bool saving = false, int64_t steps = 1) {
    for (const double seconds : durations) {
      times->begin(now_, step_, saving);
      now_ += seconds;
      step_ += steps;
      times->end(now_, step_);
    }
  }

 private:
  double now_ = 1000;
  int64_t step_ = 0;
};

TEST(CheckpointStepTimes, WhatTrainStepsBesideASaveTakeLongerThanTheMedianOfOthers) {
  Loop loop;
  StepTimes times;
  loop.run(&times, {9, 1, 1, 2, 1});          // the first compiles; the median is 1
  loop.run(&times, {3}, /*saving=*/true, 2);  // two train steps in one
  loop.run(&times, {2.5}, /*saving=*/true);
  EXPECT_EQ(times.take_slowdown(), 3 + 2.5 - 3 * 1);
  EXPECT_EQ(times.take_slowdown(), 0) << "of the next save, which had no train step beside it";
  loop.run(&times, {0.5, 0.5}, /*saving=*/true);
  EXPECT_EQ(times.take_slowdown(), 0) << "quicker than others is no gain";
  // 1 1 1 2 9 and 4 4 4: half way between 2 and 4.
  loop.run(&times, {8, 8, 8}, /*saving=*/false, 2);
  loop.run(&times, {10}, /*saving=*/true);
  EXPECT_EQ(times.take_slowdown(), 10 - 3);
}

TEST(CheckpointStepTimes, WithoutTrainStepsToCompareWithNothingIsKnown) {
  Loop loop;
  StepTimes times;
  EXPECT_EQ(times.take_slowdown(), 0);
  loop.run(&times, {1, 1, 1, 1});
  loop.run(&times, {5}, /*saving=*/true);
  EXPECT_EQ(times.take_slowdown(), std::nullopt);
  loop.run(&times, {1});
  EXPECT_EQ(times.take_slowdown(), 0) << "what was given up does not come back with the next";
}

TEST(CheckpointStepTimes, OldStepsAreForgottenAndPausesDoNotCount) {
  Loop loop;
  StepTimes times;
  for (size_t i = 0; i < StepTimes::kRemembered; ++i) loop.run(&times, {100});
  for (size_t i = 0; i < StepTimes::kRemembered; ++i) loop.run(&times, {1});
  loop.run(&times, {3}, /*saving=*/true);
  EXPECT_EQ(times.take_slowdown(), 2);
  times.begin(0, 5, /*saving=*/true);
  times.drop();  // a restore
  times.end(500, 6);
  times.begin(500, 6, /*saving=*/true);
  times.end(700, 6);  // asked twice for one train step
  times.end(900, 7);  // without a beginning
  EXPECT_EQ(times.take_slowdown(), 0);
}

TEST(CheckpointSaveHistory, KeepsTheSlowdownBesideRowsThatHaveNone) {
  const TempDir dir;
  const std::string path = dir.path() + "/" + kSavesName;
  write_file(path, R"({"step":1,"bytes":9,"blocked_s":0.5,"local_s":0,"durable_s":4})"
                   "\n"
                   R"({"step":2,"bytes":9,"blocked_s":0.5,"local_s":0,"durable_s":4,"slowdown_s":"x"})"
                   "\n"
                   R"({"step":3,"bytes":9,"blocked_s":0.5,"local_s":0,"durable_s":4,"slowdown_s":-1})"
                   "\n");
  SaveHistory old;
  old.load(posix_io(), dir.path());
  ASSERT_EQ(old.rows().size(), 1U);
  EXPECT_EQ(old.slowdown_s(), 0);
  EXPECT_EQ(old.cost_s(), 0.5);
  const double slowdowns[] = {0, 6, 1, 3};  // the median is 2
  for (int i = 0; i < 4; ++i) {
    old.add({10 + i, 9, 0.5, 0, 4});
    old.set_slowdown(9, 77);  // of no row
    old.set_slowdown(10 + i, slowdowns[i]);
  }
  EXPECT_EQ(old.slowdown_s(), 2);
  EXPECT_EQ(old.cost_s(), 0.5 + 2);
  old.store(posix_io(), dir.path());
  SaveHistory again;
  again.load(posix_io(), dir.path());
  EXPECT_EQ(again.rows().size(), 5U);
  EXPECT_FALSE(again.rows()[0].slowdown_s);
  EXPECT_EQ(again.slowdown_s(), 2);
  EXPECT_EQ(median_of({}), 0);
}

// A disk whose writes stand still while held.
class HeldIo final : public FaultyIo {
 public:
  HeldIo() : FaultyIo(kErrno, INT32_MAX) {}
  void hold(bool held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  int64_t pwrite(int fd, const void* buffer, size_t size, uint64_t at) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !held_; });
    lock.unlock();
    return posix_io().pwrite(fd, buffer, size, at);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
};

TEST(CheckpointPace, ATrainingThatSlowsDownBesideItsSavesIsMeasured) {
  const TempDir dir;
  HeldIo io;
  Settings settings = settings_for(dir.path());
  settings.mode = Settings::kAsync;
  settings.every_auto = true;
  auto context = *open_context(settings, io);
  PatternState state;
  state.fill(1);
  ASSERT_TRUE(state.enroll(*context));
  int64_t step = 0;
  const auto train = [&](int steps, int milliseconds) {
    for (int i = 0; i < steps; ++i) {
      context->want(step++);
      std::this_thread::sleep_for(Milliseconds(milliseconds));
    }
  };
  train(9, 2);
  io.hold(true);
  const int64_t saved = step;
  context->want(step);
  ASSERT_TRUE(context->save(step++));
  std::this_thread::sleep_for(Milliseconds(52));
  train(5, 52);
  io.hold(false);
  ASSERT_TRUE(context->wait(-1, nullptr));
  train(9, 2);
  ASSERT_TRUE(context->save(step, DLCKPT_SYNC));
  SaveHistory history;
  history.load(posix_io(), dir.path());
  ASSERT_EQ(history.rows().size(), 2U);
  EXPECT_EQ(history.rows()[0].step, saved);
  ASSERT_TRUE(history.rows()[0].slowdown_s);
  // Six train steps of 52 ms in place of 2; the machine may be busy, with others too.
  EXPECT_GT(*history.rows()[0].slowdown_s, 0.15);
  EXPECT_LT(*history.rows()[0].slowdown_s, 3);
  EXPECT_LT(history.rows()[0].blocked_s, *history.rows()[0].slowdown_s) << "the call itself is no part of it";
  EXPECT_FALSE(history.rows()[1].slowdown_s) << "not known yet";
}

TEST(CheckpointPace, AMeetingIsAtHalfOfTheTimeLeft) {
  struct Row {
    double left_s, interval_s, step_s;
    int64_t former;
    bool save;
    int64_t steps;
  };
  constexpr int64_t kLong = 1000000;
  for (const Row& row : {
           Row{60, 60, 0.01, kLong, false, 3000},  // 30 s
           Row{3600, 3600, 1, kLong, false, 60},   // a minute at most
           Row{3, 60, 0.5, kLong, false, 4},       // 2 s are not halved
           Row{1, 60, 0.5, kLong, false, 2},
           Row{0.3, 60, 0.5, kLong, false, 1},
           Row{0.25, 60, 0.5, kLong, true, 60},  // as near as the next one; then 30 s
           Row{-5, 600, 1, kLong, true, 60},
           Row{-5, 1, 10, kLong, true, 1},   // train steps longer than the interval
           Row{60, 60, 0.01, 2, false, 8},   // four times as far as before
           Row{60, 60, 0, 100, false, 400},  // train steps too quick to be timed
           Row{60, 60, 0.01, 0, false, 4},
       }) {
    const Hop hop = choose_hop(row.left_s, row.interval_s, row.step_s, row.former);
    EXPECT_EQ(hop.save, row.save) << row.left_s << " " << row.step_s;
    EXPECT_EQ(hop.steps, row.steps) << row.left_s << " " << row.step_s;
  }
}

// Three ranks with rank 0's clock made up: a train step takes step_s, which may change.
struct Paced {
  std::vector<int64_t> saved[3];
  int steps_with_files[3] = {0, 0, 0};
};
Paced run_paced(const std::string& dir, int64_t steps, double interval_s, const std::function<double(int64_t)>& step_s,
                const std::function<void(int rank, int64_t step)>& meanwhile = {}, double timeout_s = 30) {
  Paced run;
  run_ranks(3, [&](int rank) {
    FaultyIo io(FaultyIo::kErrno, INT32_MAX);
    double now = 50, saved_at = 50;
    AgreedPace pace(make_file_group(io, dir, "run\npace", rank, 3, timeout_s), [&] {
      return AgreedPace::Clock{now, interval_s - (now - saved_at), interval_s};
    });
    for (int64_t step = 0; step < steps; ++step) {
      if (meanwhile) meanwhile(rank, step);
      const int before = io.count();
      if (pace.due(step)) {
        run.saved[rank].push_back(step);
        saved_at = now;
      }
      if (io.count() != before) ++run.steps_with_files[rank];
      now += step_s(step);
    }
  });
  return run;
}

TEST(CheckpointPace, SeveralRanksSaveAtTheSameStepsAndMostStepsCostNothing) {
  const TempDir dir;
  const Paced run = run_paced(dir.path(), 20000, 60, [](int64_t) { return 0.01; });
  EXPECT_EQ(run.saved[0], (std::vector<int64_t>{6000, 12000, 18000}));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(run.saved[rank], run.saved[0]);
    EXPECT_LE(run.steps_with_files[rank], 40) << "of 20000";
  }
  EXPECT_TRUE(leftovers(dir.path()).empty());
}

TEST(CheckpointPace, TrainStepsThatBecomeSlowerDelayASaveByLittle) {
  const TempDir dir;
  // From 40 s on each takes a hundred times as long: 1 s.
  const Paced run = run_paced(dir.path(), 6000, 60, [](int64_t step) { return step < 4000 ? 0.01 : 1.0; });
  ASSERT_GE(run.saved[0].size(), 2U);
  // 4000 train steps are 40 s. The meeting to which they went was at most half of what was left further.
  EXPECT_LE(run.saved[0][0], 4000 + 1500);
  EXPECT_EQ(run.saved[0][1] - run.saved[0][0], 60);
  EXPECT_EQ(run.saved[1], run.saved[0]);
  EXPECT_EQ(run.saved[2], run.saved[0]);
}

TEST(CheckpointPace, WhatRankZeroSaidDoesNotPileUp) {
  const TempDir dir;
  size_t most = 0;
  // Train steps as long as the interval: a meeting at each.
  const Paced run = run_paced(
      dir.path(), 500, 1, [](int64_t) { return 1.0; },
      [&](int rank, int64_t step) {
        if (rank != 0 || step < 100) return;
        size_t files = 0;
        for (const auto& entry : fs::recursive_directory_iterator(dir.path())) files += entry.is_regular_file() ? 1 : 0;
        most = std::max(most, files);
      });
  EXPECT_GT(run.saved[0].size(), 400U);
  EXPECT_LE(most, Announcer::kAnswerEvery + 12);
}

TEST(CheckpointPace, ARankThatGaveUpWaitingIsBackInStep) {
  const TempDir dir;
  std::atomic<int64_t> seen{0};
  const Paced run = run_paced(
      dir.path(), 400, 10, [](int64_t) { return 1.0; },
      [&](int rank, int64_t step) {
        // At train step 100 rank 0 is away for longer than the others wait; they run on for a while, one wait a step.
        if (rank == 0 && step == 100) std::this_thread::sleep_for(Milliseconds(700));
        if (rank == 0) seen = step;
        // Coupled, as train steps are.
        while (rank != 0 && seen < step - 6) std::this_thread::yield();
      },
      0.3);
  ASSERT_GT(run.saved[0].size(), 30U);
  for (int rank = 1; rank < 3; ++rank) {
    std::vector<int64_t> late, late0;
    for (const int64_t step : run.saved[rank])
      if (step > 120) late.push_back(step);
    for (const int64_t step : run.saved[0])
      if (step > 120) late0.push_back(step);
    EXPECT_EQ(late, late0) << "rank " << rank;
    EXPECT_GE(run.saved[rank].size() + 2, run.saved[0].size());
  }
}

TEST(CheckpointPace, SeveralRanksSaveByTimeThroughTheLibraryWithoutDlrun) {
  const TempDir dir;
  std::vector<int64_t> saved[3];
  run_ranks(3, [&](int rank) {
    Settings settings = settings_for(dir.path(), rank, 3);
    settings.mode = Settings::kAsync;
    settings.every_s = 0.15;
    auto context = *open_context(settings);
    PatternState state;
    for (int64_t step = 0; step < 200; ++step) {
      state.fill(step);
      ASSERT_TRUE(state.enroll(*context));
      if (context->want(step) & DLCKPT_WANT_SAVE) {
        saved[rank].push_back(step);
        auto outcome = context->save(step);
        EXPECT_TRUE(outcome) << outcome.error().text;
      }
      std::this_thread::sleep_for(Milliseconds(5));
    }
    auto waited = context->wait(-1, nullptr);
    EXPECT_TRUE(waited) << waited.error().text;
  });
  EXPECT_GE(saved[0].size(), 2U);  // of about 6
  EXPECT_EQ(saved[1], saved[0]);
  EXPECT_EQ(saved[2], saved[0]);
  EXPECT_EQ(scan_checkpoints(posix_io(), dir.path())->front().step, saved[0].back());
  EXPECT_TRUE(leftovers(dir.path()).empty());
}

TEST(CheckpointPace, SkippingForHoursLeavesNoPileOfFiles) {
  const TempDir dir;
  size_t files = 0;
  run_ranks(2, [&](int rank) {
    auto context = *open_context(settings_for(dir.path(), rank, 2));
    PatternState state;
    state.fill(1);
    ASSERT_TRUE(state.enroll(*context));
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(context->save(1, DLCKPT_SKIP_IF_BUSY));
    if (rank != 0) return;
    for (const auto& entry : fs::recursive_directory_iterator(dir.path() + "/" + run_folder("test\nskip")))
      files += entry.is_regular_file() ? 1 : 0;
  });
  EXPECT_LE(files, Announcer::kAnswerEvery + 8);
}

}  // namespace
}  // namespace dl::ckpt::test
