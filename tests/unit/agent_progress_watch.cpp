// SPDX-License-Identifier: Apache-2.0
// When a learner counts as standing still, and which of several the others wait for: tables.
#include <gtest/gtest.h>

#include "common/contract/progress_page.h"
#include "launcher/agent/progress_watch.h"
#include "launcher/supervise/hang.h"

namespace dl {
namespace {

using agent::ProgressSample;
using agent::ProgressWatch;

constexpr uint32_t kNone = ProgressPage::kNotAttached, kTraining = ProgressPage::kTraining,
                   kSaving = ProgressPage::kSaving;

ProgressSample sample(int64_t second, uint32_t state, int64_t step, uint64_t log = 0, int64_t cpu_ms = 0) {
  ProgressSample s;
  s.at_ms = 1000 * second;
  s.state = state;
  s.step = step;
  s.log_bytes = log;
  s.cpu_ms = cpu_ms;
  return s;
}

// The first second at which a learner whose samples `next` gives stalls, with a limit of 10 s; -1: not within 300 s.
template <typename Next>
int64_t stalls_at(Next next) {
  ProgressWatch watch(10000);
  for (int64_t second = 0; second <= 300; ++second) {
    watch.add(next(second));
    if (watch.stalled()) return second;
  }
  return -1;
}

TEST(ProgressWatchTest, ALearnerThatSendsItsLastCheckpointToAnObjectStoreMakesProgress) {
  const auto sends = [](int64_t s) {
    ProgressSample now = sample(s, kTraining, 5);
    now.sending = static_cast<uint64_t>(s / 9);
    return now;
  };
  EXPECT_EQ(stalls_at(sends), -1);
}

TEST(ProgressWatchTest, Table) {
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, kTraining, s); }), -1) << "trains";
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, kTraining, s / 8); }), -1) << "slowly";
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, kTraining, std::min<int64_t>(s, 20), 100 * s, 1000 * s); }), 30)
      << "its steps stand still, whatever it writes and computes";
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, kTraining, -1); }), 100)
      << "start-up may take ten times as long";
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, kTraining, s < 5 ? -1 : 0); }), 105) << "the first step too";
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, s < 20 ? kTraining : kSaving, std::min<int64_t>(s, 19)); }), 120)
      << "so may a save";
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, kNone, -1, std::min<int64_t>(s, 30), 1000 * s); }), 40)
      << "without the library its log counts, not its CPU time";
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, kNone, -1, 0, 30 * s); }), -1) << "never wrote, computes";
  EXPECT_EQ(stalls_at([](int64_t s) { return sample(s, kNone, -1, 0, s / 100); }), 10) << "never wrote, is idle";
  ProgressWatch off(0);
  off.add(sample(0, kNone, -1));
  off.add(sample(1000000, kNone, -1));
  EXPECT_FALSE(off.stalled());
  EXPECT_FALSE(ProgressWatch(1).stalled()) << "no sample yet";
}

TEST(WhoIsBehindTest, Table) {
  using supervise::StandStill;
  struct Row {
    const char* what;
    std::vector<StandStill> learners;
    int rank;
    const char* text;
  };
  const Row rows[] = {
      {"the least train step",
       {{0, 42, 'S', 60000}, {1, 41, 'S', 60000}, {2, 42, 'R', 61000}},
       1,
       "no progress for 60 s at train step 41, where others are at 42"},
      {"the one that is stopped",
       {{0, 7, 'R', 60000}, {1, 7, 'S', 60000}, {2, 7, 'T', 59000}},
       2,
       "no progress for 59 s at train step 7, stopped by a signal"},
      {"the one that waits for a disk",
       {{0, 7, 'S', 60000}, {1, 7, 'D', 60000}},
       1,
       "no progress for 60 s at train step 7, waiting for a disk or a device"},
      {"the one that runs", {{0, -1, 'S', 60000}, {1, -1, 'R', 60000}}, 1, "no progress for 60 s"},
      {"the longest silence", {{0, 7, 'S', 60000}, {1, 7, 'S', 61000}}, 1, "no progress for 61 s at train step 7"},
      {"one that does not answer is no better known",
       {{0, 7, '?', 60000}, {1, 7, 'R', 60000}},
       1,
       "no progress for 60 s at train step 7"},
  };
  for (const Row& row : rows) {
    const auto behind = supervise::who_is_behind(row.learners);
    ASSERT_TRUE(behind) << row.what;
    EXPECT_EQ(behind->rank, row.rank) << row.what;
    EXPECT_EQ(behind->text, row.text) << row.what;
  }
  EXPECT_FALSE(supervise::who_is_behind({}));
}

}  // namespace
}  // namespace dl
