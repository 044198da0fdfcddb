// SPDX-License-Identifier: Apache-2.0
// When to save: the Pacer alone, with a clock that the test turns and requests that the test makes up.
#include "checkpoint/client/pacer.h"

#include <gtest/gtest.h>

#include <optional>

#include "checkpoint/include/dlckpt.h"

namespace dl::ckpt::test {
namespace {

constexpr int kSaveThenExit = DLCKPT_WANT_SAVE | DLCKPT_WANT_EXIT;

// A pacer and its time.
class Paced {
 public:
  explicit Paced(const Pacer::Rules& rules) : pacer(rules, [this] { return now_s; }) {}
  int want(int64_t step, std::optional<ProgressPage::Request> asked = std::nullopt) {
    return pacer.decide(step, asked);
  }
  void save(int64_t step) {
    pacer.saved(step, /*saving=*/false);
    pacer.settle(step);
  }
  double now_s = 1000;  // before the pacer, which asks at once
  Pacer pacer;
};

TEST(CheckpointPacer, WithoutARuleNothingIsWanted) {
  Paced paced({});
  for (int64_t step = 0; step < 100; ++step) {
    paced.now_s += 3600;
    EXPECT_EQ(paced.want(step), 0);
  }
}

TEST(CheckpointPacer, EverySoManyStepsButNotAtTheFirstAndNotTwice) {
  Paced paced({0, 5, false});
  EXPECT_EQ(paced.want(0), 0) << "nothing was trained yet";
  EXPECT_EQ(paced.want(4), 0);
  EXPECT_EQ(paced.want(5), DLCKPT_WANT_SAVE);
  EXPECT_EQ(paced.want(5), DLCKPT_WANT_SAVE) << "as long as the program did not save";
  paced.save(5);
  EXPECT_EQ(paced.want(5), 0);
  EXPECT_EQ(paced.want(10), DLCKPT_WANT_SAVE);
  EXPECT_EQ(paced.want(10, ProgressPage::kNone), DLCKPT_WANT_SAVE) << "under dlrun, too";
}

TEST(CheckpointPacer, EverySoManySecondsCountFromTheLastSaveOrRestore) {
  Paced paced({10, 0, false});
  paced.now_s += 9.9;
  EXPECT_EQ(paced.want(1), 0);
  paced.now_s += 0.1;
  EXPECT_EQ(paced.want(2), DLCKPT_WANT_SAVE);
  paced.save(2);
  EXPECT_EQ(paced.want(3), 0);
  paced.now_s += 10;
  EXPECT_EQ(paced.want(2), 0) << "the state of that train step is saved already";
  EXPECT_EQ(paced.want(3), DLCKPT_WANT_SAVE);
  paced.pacer.restored(7);
  EXPECT_EQ(paced.want(8), 0);
  paced.now_s += 10;
  EXPECT_EQ(paced.want(7), 0) << "what was restored is not saved again";
  EXPECT_EQ(paced.want(8), DLCKPT_WANT_SAVE);
}

TEST(CheckpointPacer, UnderDlrunTimeIsDlrunsMatter) {
  Paced paced({10, 0, false});
  paced.now_s += 100;
  EXPECT_EQ(paced.want(1, ProgressPage::kNone), 0);
  EXPECT_EQ(paced.want(1, ProgressPage::kSave), DLCKPT_WANT_SAVE);
  paced.save(1);
  EXPECT_EQ(paced.want(1, ProgressPage::kSave), 0) << "saved already";
}

TEST(CheckpointPacer, AnExitIsAnsweredAlsoWhereTheStateIsSavedAndARestoreForgetsIt) {
  Paced paced({});
  EXPECT_EQ(paced.pacer.exit_step(), -1);
  paced.save(4);
  EXPECT_EQ(paced.want(4, ProgressPage::kSaveAndExit), kSaveThenExit);
  EXPECT_EQ(paced.pacer.exit_step(), 4);
  EXPECT_TRUE(paced.pacer.exits_at(4));
  EXPECT_FALSE(paced.pacer.exits_at(5));
  EXPECT_FALSE(paced.pacer.local_save_at(4));
  EXPECT_EQ(paced.want(5, ProgressPage::kSaveLocalAndExit), kSaveThenExit);
  EXPECT_TRUE(paced.pacer.local_save_at(5));
  EXPECT_FALSE(paced.pacer.local_save_at(4));
  EXPECT_EQ(paced.want(6, ProgressPage::kExitWithoutSave), DLCKPT_WANT_EXIT);
  EXPECT_EQ(paced.pacer.exit_step(), 6);
  paced.pacer.restored(2);
  EXPECT_EQ(paced.pacer.exit_step(), -1);
  EXPECT_FALSE(paced.pacer.local_save_at(5));
}

TEST(CheckpointPacer, TheAutomaticIntervalFollowsWhatSavesCost) {
  Paced paced({0, 0, true});
  EXPECT_TRUE(paced.pacer.by_time());
  EXPECT_EQ(paced.pacer.interval_s(), 60) << "before anything was measured";
  paced.pacer.set_prediction({/*durable_s=*/2, 0, /*cost_s=*/0.5});
  const double cheap_s = paced.pacer.interval_s();
  EXPECT_GT(cheap_s, 60);
  EXPECT_LT(cheap_s, 3600);
  paced.pacer.set_prediction({2, 0, 5});
  EXPECT_GT(paced.pacer.interval_s(), cheap_s) << "dearer saves are rarer";
  paced.pacer.set_prediction({2, 0, 0.5});
  paced.now_s += cheap_s - 1;
  EXPECT_EQ(paced.want(1), 0);
  paced.now_s += 2;
  EXPECT_EQ(paced.want(2), DLCKPT_WANT_SAVE);
}

TEST(CheckpointPacer, ATrainStepIsWhatPassesBetweenTwoQuestionsAndNotWithinOne) {
  Paced paced({0, 0, true});
  const auto step_of = [&](int64_t step, double seconds, bool saving) {
    paced.pacer.arrive(step);
    paced.now_s += 50;  // ranks wait for one another
    paced.pacer.depart(step, saving);
    paced.now_s += seconds;
  };
  int64_t step = 0;
  for (; step < 10; ++step) step_of(step, 1, false);
  step_of(step++, 3, true);
  paced.pacer.arrive(step);
  EXPECT_EQ(paced.pacer.take_slowdown(), 2);
  // The call of a save is none either.
  paced.pacer.depart(step, false);
  paced.now_s += 20;
  paced.pacer.saved(step, true);
  paced.now_s += 4;
  paced.pacer.arrive(step + 1);
  EXPECT_EQ(paced.pacer.take_slowdown(), 3);
}

}  // namespace
}  // namespace dl::ckpt::test
