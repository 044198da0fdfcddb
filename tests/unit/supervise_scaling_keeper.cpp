// SPDX-License-Identifier: Apache-2.0
// scaling.json while a run trains: what was measured before stays, when it is written, and what dlpolicyd is told.
#include "launcher/supervise/scaling_keeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/atomic_file.h"
#include "common/scaling/scale_hint.h"

namespace dl::supervise {
namespace {

class ScalingKeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-keeper-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = record::JobDir(name);
    record_.name = "train";
    record_.framework = "pytorch";
    record_.asked = {1, 4};
    record_.now = {2, 1, 2, 1};
    learners_.resize(2);
    ASSERT_EQ(uv_loop_init(&loop_), 0);
  }
  void TearDown() override {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0);
    std::filesystem::remove_all(dir_.root());
  }
  // The learners report each second that they have done so many train steps more.
  void train(int reports, int64_t steps) {
    for (Learner& learner : learners_) learner.times = {};
    for (int i = 0; i <= reports; ++i)
      for (Learner& learner : learners_) learner.times.add(1000 * i, steps * i);
  }
  void look(int64_t now_ms, bool last = false) {
    keeper_.look(dir_, record_, learners_, now_ms, kBegan, last);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_TRUE(keeper_.idle());
  }
  // The seconds of a train step that the file has for this size; 0: none.
  double written(const scaling::Size& size) const {
    const auto record = record::read_scaling(dir_.scaling());
    if (!record) return 0;
    for (const scaling::Measured& one : record->measured)
      if (one.size == size) return one.step_s;
    return 0;
  }

  static constexpr int64_t kBegan = 100'000;
  uv_loop_t loop_{};
  ScalingKeeper keeper_{&loop_};
  record::JobDir dir_{""};
  record::ScalingRecord record_;
  std::vector<Learner> learners_;
};

TEST_F(ScalingKeeperTest, WritesAtOnceThenEach15SecondsAndAtTheEnd) {
  look(101'000);
  EXPECT_EQ(written(record_.now), 0) << "nothing is measured yet";
  train(8, 4);
  look(109'000);
  EXPECT_DOUBLE_EQ(written(record_.now), 0.25);
  train(8, 8);
  look(123'999);
  EXPECT_DOUBLE_EQ(written(record_.now), 0.25) << "not each second";
  look(124'000);
  EXPECT_DOUBLE_EQ(written(record_.now), 0.125);
  train(8, 2);
  look(125'000, true);
  EXPECT_DOUBLE_EQ(written(record_.now), 0.5) << "the last one, whenever it was written before";
}

TEST_F(ScalingKeeperTest, WhatWasMeasuredAtOtherSizesStays) {
  record::ScalingRecord before = record_;
  before.now = {4, 2, 4, 1};
  scaling::Measured measured;
  measured.size = before.now;
  measured.step_s = 0.75;
  measured.steps = 40;
  measured.time_s = 100;
  before.measured = {measured};
  ASSERT_TRUE(replace_file(dir_.scaling(), record::format_scaling(before)));
  train(8, 4);
  look(101'000);
  EXPECT_EQ(written(record_.now), 0) << "nothing is written before it is known";
  look(102'000);
  EXPECT_DOUBLE_EQ(written(record_.now), 0.25);
  EXPECT_DOUBLE_EQ(written(before.now), 0.75);
  const ScaleHint hint = parse_scale_hint(keeper_.hint());
  EXPECT_EQ(hint.sizes.size(), 2U) << keeper_.hint();
}

TEST_F(ScalingKeeperTest, TheHintTellsHowLongTheRestartTook) {
  look(101'000);
  EXPECT_EQ(keeper_.hint(), "") << "nothing is measured yet";
  train(1, 1);
  look(106'500);  // the first train steps are seen 6.5 s after the attempt began
  train(8, 4);
  look(120'000);
  const ScaleHint hint = parse_scale_hint(keeper_.hint());
  EXPECT_EQ(hint.restart_s, 7) << keeper_.hint();
  EXPECT_LT(hint.noise, 0);
  ASSERT_EQ(hint.sizes.size(), 1U);
  EXPECT_EQ(hint.sizes[0].learners, 2);
  EXPECT_NEAR(hint.sizes[0].step_s, 0.25, 0.001);
  learners_[0].noise = 33;  // as on the progress page: 32 samples
  look(140'000);
  EXPECT_NEAR(parse_scale_hint(keeper_.hint()).noise, 32, 0.5);
}

TEST_F(ScalingKeeperTest, AJobOfOneSizeTellsDlpolicydNothing) {
  record_.asked = {2, 2};
  look(101'000);
  train(8, 4);
  look(109'000);
  EXPECT_DOUBLE_EQ(written(record_.now), 0.25);
  EXPECT_EQ(keeper_.hint(), "");
}

}  // namespace
}  // namespace dl::supervise
