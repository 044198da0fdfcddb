// SPDX-License-Identifier: Apache-2.0
// Which checkpoints are kept: a table, properties over random directories, and the real files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "checkpoint/store/retire.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

CheckpointFacts facts(uint32_t generation, int64_t step, std::map<std::string, double> metrics = {}) {
  CheckpointFacts f;
  f.name = CheckpointName{step, uint64_t{generation} << 32 | 7};
  f.metrics = std::move(metrics);
  return f;
}

std::vector<int64_t> kept_steps(const std::vector<RetentionVerdict>& verdicts) {
  std::vector<int64_t> steps;
  for (const RetentionVerdict& verdict : verdicts)
    if (!verdict.remove) steps.push_back(verdict.name.step);
  return steps;
}

using Steps = std::vector<int64_t>;

TEST(CheckpointRetention, KeepsTheNewestTheMilestonesAndTheBest) {
  std::vector<CheckpointFacts> all;
  for (uint32_t i = 1; i <= 10; ++i) all.push_back(facts(i, i * 100, {{"loss", 5.0 - (i % 4)}}));
  EXPECT_EQ(kept_steps(decide_retention(all, {3, 0, {}}, {})), (Steps{1000, 900, 800}));
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 400, {}}, {})), (Steps{1000, 800, 400}));
  // Losses 4 3 2 5 4 3 2 5 4 3: the lowest are of 700 and 300; of the equal ones the newer comes first.
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, BestMetric{"loss", true, 1}}, {})), (Steps{1000, 700}));
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, BestMetric{"loss", true, 2}}, {})), (Steps{1000, 700, 300}));
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, BestMetric{"loss", false, 1}}, {})), (Steps{1000, 800}));
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, BestMetric{"accuracy", false, 5}}, {})), (Steps{1000}));
}

TEST(CheckpointRetention, AfterGoingBackTheNewestBranchCounts) {
  // 100 200 300, then back to 100, then 200 again.
  const std::vector<CheckpointFacts> all{facts(1, 100), facts(2, 200), facts(3, 300), facts(4, 200)};
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, {}}, {})), (Steps{200}));
  const auto verdicts = decide_retention(all, {1, 200, {}}, {});
  EXPECT_EQ(kept_steps(verdicts), (Steps{200})) << "one of each milestone: the newer";
  EXPECT_EQ(verdicts.front().name.generation(), 4U);
}

TEST(CheckpointRetention, PinnedAndJustWrittenOnesStay) {
  std::vector<CheckpointFacts> all{facts(1, 1), facts(2, 2), facts(3, 3), facts(4, 4)};
  all[0].pinned = true;
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, {}}, all[1].name)), (Steps{4, 2, 1}));
}

TEST(CheckpointRetention, WhatIsBeingSentStaysUntilItIs) {
  const std::vector<CheckpointFacts> all{facts(1, 100), facts(2, 200), facts(3, 300)};
  RetentionPolicy policy{1, 0, {}};
  policy.held = {all[0].name.save_id};
  EXPECT_EQ(kept_steps(decide_retention(all, policy, {})), (Steps{300, 100}));
  policy.held.clear();
  EXPECT_EQ(kept_steps(decide_retention(all, policy, {})), (Steps{300}));
}

TEST(CheckpointRetention, DamagedOnesNeverPushOutAGoodOne) {
  std::vector<CheckpointFacts> all{facts(1, 1), facts(2, 2), facts(3, 3), facts(4, 4)};
  all[3].intact = all[2].intact = false;
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, {}}, {})), (Steps{4, 3, 2})) << "2 is the last good one";
  all[1].intact = all[0].intact = false;
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, {}}, {})), (Steps{4, 3, 2, 1})) << "none is good: none goes";
  all[3].intact = true;
  EXPECT_EQ(kept_steps(decide_retention(all, {1, 0, {}}, {})), (Steps{4})) << "a good one follows the damaged ones";
}

TEST(CheckpointRetention, HoldsItsPromisesOverRandomDirectories) {
  std::mt19937 random(20);
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  for (int round = 0; round < 3000; ++round) {
    std::vector<CheckpointFacts> all;
    const int count = pick(0, 14);
    for (int i = 0; i < count; ++i) {
      CheckpointFacts f;
      f.name = CheckpointName{pick(0, 9), uint64_t(static_cast<uint64_t>(pick(1, 12))) << 32 | random()};
      if (pick(0, 2) > 0) f.metrics["m"] = pick(0, 4);
      f.pinned = pick(0, 5) == 0;
      f.intact = pick(0, 4) > 0;
      all.push_back(f);
    }
    RetentionPolicy policy;
    policy.keep = pick(1, 4);
    policy.keep_every = pick(0, 1) ? pick(1, 5) : 0;
    if (pick(0, 1)) policy.best = BestMetric{"m", pick(0, 1) == 1, pick(1, 3)};
    std::optional<CheckpointName> written;
    if (count > 0 && pick(0, 1)) written = all[static_cast<size_t>(pick(0, count - 1))].name;

    const auto verdicts = decide_retention(all, policy, written);
    ASSERT_EQ(verdicts.size(), all.size());
    std::set<uint64_t> removed;
    for (const auto& v : verdicts) {
      EXPECT_FALSE(v.reason.empty());
      if (v.remove) removed.insert(v.name.save_id);
    }
    const CheckpointFacts* last_good = nullptr;
    for (const auto& f : all) {
      if (f.intact && (!last_good || newer(f.name, last_good->name))) last_good = &f;
      if (f.pinned) {
        EXPECT_EQ(removed.count(f.name.save_id), 0U) << "pinned";
      }
    }
    if (last_good) {
      EXPECT_EQ(removed.count(last_good->name.save_id), 0U) << "the last good one";
    }
    if (!last_good) {
      EXPECT_TRUE(removed.empty());
    }
    if (written) {
      EXPECT_EQ(removed.count(written->save_id), 0U) << "just written";
    }
    // Oracles that count instead of sort.
    for (const auto& f : all) {
      int64_t newer_good = 0, newer_of_step = 0, better = 0;
      for (const auto& g : all) {
        if (!g.intact || g.name.save_id == f.name.save_id) continue;
        newer_good += newer(g.name, f.name) ? 1 : 0;
        newer_of_step += newer(g.name, f.name) && g.name.step == f.name.step ? 1 : 0;
        if (policy.best && g.metrics.count("m") && f.metrics.count("m")) {
          const double a = g.metrics.at("m"), b = f.metrics.at("m");
          better += (policy.best->lowest ? a < b : a > b) || (a == b && newer(g.name, f.name)) ? 1 : 0;
        }
      }
      bool keep = f.pinned || (written && written->save_id == f.name.save_id) || newer_good < policy.keep;
      if (f.intact) {
        keep = keep || (policy.keep_every > 0 && f.name.step % policy.keep_every == 0 && newer_of_step == 0);
        keep = keep || (policy.best && f.metrics.count("m") && better < policy.best->count);
      }
      EXPECT_EQ(removed.count(f.name.save_id) == 0, keep);
    }
    // The order given does not matter, and what is left is left.
    std::shuffle(all.begin(), all.end(), random);
    EXPECT_EQ(kept_steps(decide_retention(all, policy, written)), kept_steps(verdicts));
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const CheckpointFacts& f) { return removed.count(f.name.save_id) > 0; }),
              all.end());
    for (const auto& v : decide_retention(all, policy, written)) EXPECT_FALSE(v.remove);
  }
}

Steps steps_in(const std::string& dir) {
  Steps steps;
  const auto names = scan_checkpoints(posix_io(), dir);
  for (const CheckpointName& name : *names) steps.push_back(name.step);
  return steps;
}

TEST(CheckpointRetention, ASaveRetiresByMetricMilestoneAndPin) {
  TempDir dir;
  Settings settings = settings_for(dir.path());
  settings.keep = 1;
  settings.keep_every = 4;
  settings.best = BestMetric{"val/loss", true, 1};
  auto context = open_context(settings);
  ASSERT_TRUE(context);
  PatternState state(100);
  ASSERT_TRUE(state.enroll(**context));
  for (int64_t step = 1; step <= 9; ++step) {
    state.fill(step);
    ASSERT_TRUE((*context)->set_metric("val/loss", step == 3 ? 0.25 : 1.0 + static_cast<double>(step)));
    if (step == 6) {
      EXPECT_FALSE((*context)->set_metric("val/loss", std::nan("")));
    }
    ASSERT_TRUE((*context)->save(step));
    if (step == 2) {
      ASSERT_TRUE(pin(posix_io(), dir.path(), scan_checkpoints(posix_io(), dir.path())->front(), "mine"));
    }
  }
  context->reset();
  EXPECT_EQ(steps_in(dir.path()), (Steps{9, 8, 4, 3, 2}));
  const auto names = *scan_checkpoints(posix_io(), dir.path());
  EXPECT_EQ(verify_checkpoint(posix_io(), dir.path(), names[3])->metrics.at("val/loss"), 0.25);
  // Unpinned, it goes with the next save. (A new run knows metrics from the manifests alone.)
  ASSERT_TRUE(unpin(posix_io(), dir.path(), names[4]));
  auto again = open_context(settings);
  ASSERT_TRUE(again);
  ASSERT_TRUE(state.enroll(**again));
  ASSERT_TRUE((*again)->save(10));
  EXPECT_EQ(steps_in(dir.path()), (Steps{10, 8, 4, 3}));
}

TEST(CheckpointRetention, AnotherNoteReplacesThatOfAPinAndNoneDoesNot) {
  TempDir dir;
  auto context = open_context(settings_for(dir.path()));
  ASSERT_TRUE(context);
  PatternState state(100);
  ASSERT_TRUE(state.enroll(**context));
  ASSERT_TRUE((*context)->save(1));
  const CheckpointName name = scan_checkpoints(posix_io(), dir.path())->front();
  for (const auto& [given, kept] : std::vector<std::pair<std::string, std::string>>{
           {"", "\n"}, {"mine", "mine\n"}, {"", "mine\n"}, {"for the paper", "for the paper\n"}}) {
    ASSERT_TRUE(pin(posix_io(), dir.path(), name, given));
    EXPECT_EQ(*pin_note(posix_io(), dir.path(), name), kept);
  }
  ASSERT_TRUE(unpin(posix_io(), dir.path(), name));
  EXPECT_FALSE(pin(posix_io(), dir.path(), CheckpointName{2, 7}, "x"));
}

TEST(CheckpointRetention, AMetricIsThatOfOneSave) {
  TempDir dir;
  auto context = open_context(settings_for(dir.path()));
  ASSERT_TRUE(context);
  PatternState state(10);
  ASSERT_TRUE(state.enroll(**context));
  ASSERT_TRUE((*context)->set_metric("loss", 2));
  ASSERT_TRUE((*context)->set_metric("loss", 1.5));
  ASSERT_TRUE((*context)->save(1));
  ASSERT_TRUE((*context)->save(2));
  const auto names = *scan_checkpoints(posix_io(), dir.path());
  EXPECT_TRUE(load_manifest(posix_io(), dir.path(), names[0])->metrics.empty());
  EXPECT_EQ(load_manifest(posix_io(), dir.path(), names[0])->schema(), 1) << "a reader of the first version reads it";
  EXPECT_EQ(load_manifest(posix_io(), dir.path(), names[1])->metrics.at("loss"), 1.5);
  for (const char* bad : {"", "a b", "/a", "%", "\xff"}) EXPECT_FALSE((*context)->set_metric(bad, 1)) << bad;
  EXPECT_FALSE((*context)->set_metric(nullptr, 1));
  EXPECT_FALSE((*context)->set_metric("x", std::numeric_limits<double>::infinity()));
}

}  // namespace
}  // namespace dl::ckpt::test
