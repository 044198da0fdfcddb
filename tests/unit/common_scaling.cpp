// SPDX-License-Identifier: Apache-2.0
// The model of how a job scales: it finds the formula that made the times, says how sure it is, and stays within bounds
// whatever it is told.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/scaling/model.h"

namespace dl::scaling {
namespace {

Measured measured(Size size, double step_s, int64_t time_s = 1) {
  Measured one;
  one.size = size;
  one.step_s = step_s;
  one.steps = 100;
  one.time_s = time_s;
  return one;
}

double formula(const Size& size, double a, double c, double n, double f) {
  const double moves = 2.0 * (size.learners - 1) / size.learners;
  const int64_t samples = (size.batch + size.learners - 1) / size.learners;
  return a * static_cast<double>(size.passes) + c * static_cast<double>(samples) + moves * (size.nodes > 1 ? f : n);
}

TEST(ScalingModel, FindsThePartsThatMadeTheTimes) {
  std::vector<Measured> all;
  for (const Size& size : {Size{1, 1, 32, 1}, Size{1, 1, 64, 1}, Size{1, 1, 64, 2}, Size{2, 1, 64, 1},
                           Size{4, 1, 256, 2}, Size{8, 2, 256, 1}, Size{16, 4, 512, 1}})
    add(measured(size, formula(size, 0.01, 0.002, 0.03, 0.12)), &all);
  const auto model = Model::fit(all);
  ASSERT_TRUE(model);
  EXPECT_NEAR(model->per_pass_s(), 0.01, 2e-4);
  EXPECT_NEAR(model->per_sample_s(), 0.002, 2e-5);
  EXPECT_NEAR(model->on_node_s(), 0.03, 6e-4);
  EXPECT_NEAR(model->between_nodes_s(), 0.12, 1e-3);
  EXPECT_EQ(model->error(), 0.02);
  const Size other{32, 8, 1024, 1};
  const Prediction prediction = model->predict(other);
  EXPECT_NEAR(prediction.step_s, formula(other, 0.01, 0.002, 0.03, 0.12), 0.005);
  EXPECT_EQ(prediction.confidence, Confidence::kFitted);
  EXPECT_NEAR(prediction.communication_s + prediction.compute_s, prediction.step_s, 1e-9);
}

TEST(ScalingModel, OneSizeTellsItsOwnSpeedAndGuessesTheRestWidely) {
  const auto model = Model::fit({measured({1, 1, 32, 1}, 0.5)});
  ASSERT_TRUE(model);
  EXPECT_EQ(model->predict({1, 1, 32, 1}).confidence, Confidence::kMeasured);
  EXPECT_DOUBLE_EQ(model->predict({1, 1, 32, 1}).samples_per_s, 64);
  const Prediction two = model->predict({2, 1, 64, 1});
  EXPECT_EQ(two.confidence, Confidence::kGuessed);
  EXPECT_GT(two.samples_per_s, 64);
  EXPECT_LE(two.samples_per_s, 128 * 1.001);
  EXPECT_LE(two.low, two.samples_per_s / 2);
  EXPECT_GE(two.high, 2 * two.samples_per_s);
}

TEST(ScalingModel, TheNetworkIsGuessedUntilSeveralNodesWereRun) {
  std::vector<Measured> all;
  for (const Size& size : {Size{1, 1, 32, 1}, Size{2, 1, 64, 1}, Size{4, 1, 128, 1}})
    add(measured(size, formula(size, 0, 0.01, 0.1, 0)), &all);
  auto model = Model::fit(all);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->predict({3, 1, 96, 1}).confidence, Confidence::kFitted);
  EXPECT_EQ(model->predict({8, 2, 256, 1}).confidence, Confidence::kGuessed);
  EXPECT_NEAR(model->between_nodes_s(), 0.1, 0.01) << "as slow as the node's links, until it is known";
  add(measured({4, 2, 128, 1}, formula({4, 2, 128, 1}, 0, 0.01, 0.1, 0.5)), &all);
  model = Model::fit(all);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->predict({8, 2, 256, 1}).confidence, Confidence::kFitted);
  EXPECT_NEAR(model->between_nodes_s(), 0.5, 0.01);
}

TEST(ScalingModel, ANewerTimeOfASizeReplacesTheOldOneAndOldSizesMakeRoom) {
  std::vector<Measured> all;
  add(measured({2, 1, 8, 1}, 1, 10), &all);
  add(measured({2, 1, 8, 1}, 2, 20), &all);
  add(measured({2, 1, 8, 1}, 3, 15), &all);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].step_s, 2);
  for (int batch = 9; batch < 9 + kMostSizes; ++batch) add(measured({2, 1, batch, 1}, 1, 30 + batch), &all);
  ASSERT_EQ(all.size(), static_cast<size_t>(kMostSizes));
  for (const Measured& one : all) EXPECT_NE(one.size.batch, 8) << "the oldest goes first";
}

TEST(ScalingModel, WhatCannotBeIsNotCounted) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  for (const double step : {0.0, -1.0, nan, infinite, 1e-9, 1e9}) EXPECT_FALSE(sane(measured({1, 1, 1, 1}, step)));
  for (const Size& size : {Size{0, 1, 1, 1}, Size{1, 0, 1, 1}, Size{1, 2, 1, 1}, Size{1, 1, 0, 1}, Size{1, 1, 1, 2},
                           Size{1, 1, 1, 0}, Size{1'000'001, 1, 1, 1}, Size{1, 1, 100'000'001, 1}, Size{-1, -1, 1, 1}})
    EXPECT_FALSE(sane(measured(size, 1)));
  Measured odd = measured({1, 1, 1, 1}, 1);
  odd.spread_s = nan;
  EXPECT_FALSE(sane(odd));
  odd = measured({1, 1, 1, 1}, 1);
  odd.steps = 0;
  EXPECT_FALSE(sane(odd));
  EXPECT_FALSE(Model::fit({odd}));
  EXPECT_FALSE(Model::fit({}));
}

// 100,000 jobs that lie: every prediction is finite, positive and between its bounds; a speed grows at most with the
// learners at the same samples for each; more samples never take less time.
TEST(ScalingModel, WhateverAProgramSaysTheCurveStaysWithinBounds) {
  std::mt19937_64 random(19);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::vector<double> odd{0, -1, std::nan(""), std::numeric_limits<double>::infinity(), 1e-6, 1e6, 1e300, 1e-300};
  const auto size_of = [&] {
    Size size;
    size.learners = static_cast<int>(draw(0, 3) == 0 ? draw(1, 1'000'000) : draw(1, 16));
    size.nodes = static_cast<int>(draw(1, size.learners));
    size.batch = draw(0, 3) == 0 ? draw(1, 100'000'000) : draw(1, 512);
    size.passes = draw(1, std::min<int64_t>(size.batch, 8));
    return size;
  };
  for (int round = 0; round < 100'000; ++round) {
    std::vector<Measured> all;
    for (int64_t count = draw(1, 6); count > 0; --count) {
      const double step = draw(0, 4) == 0 ? odd[static_cast<size_t>(draw(0, 7))] : std::exp(draw(-13, 13));
      Measured one = measured(size_of(), step, draw(-5, 5));
      one.spread_s = draw(0, 9) == 0 ? odd[static_cast<size_t>(draw(0, 7))] : 0.01 * step;
      all.push_back(one);
    }
    const auto model = Model::fit(all);
    if (!model) continue;
    const Size size = size_of();
    const Prediction p = model->predict(size);
    ASSERT_TRUE(std::isfinite(p.step_s) && p.step_s > 0);
    ASSERT_TRUE(std::isfinite(p.samples_per_s) && p.samples_per_s > 0);
    ASSERT_TRUE(std::isfinite(p.high) && 0 < p.low && p.low <= p.samples_per_s && p.samples_per_s <= p.high);
    ASSERT_TRUE(p.compute_s >= 0 && p.communication_s >= 0);
    if (p.confidence == Confidence::kMeasured || size.learners > 400'000 || size.batch > 30'000'000) continue;
    Size twice = size;
    twice.learners *= 2;
    twice.nodes *= 2;
    twice.batch = 2 * size.batch;
    const Prediction more = model->predict(twice);
    if (size.nodes > 1 && more.confidence != Confidence::kMeasured && size.batch % size.learners == 0) {
      ASSERT_LE(more.samples_per_s, 2 * p.samples_per_s * (1 + 1e-9));
    }
    Size larger = size;
    larger.batch *= 3;
    const Prediction slower = model->predict(larger);
    if (slower.confidence != Confidence::kMeasured) {
      ASSERT_GE(slower.step_s, p.step_s * (1 - 1e-9));
    }
  }
}

// Times with an error of 5 % each: what was not run is predicted within the error that the model names for itself, in
// nine of ten cases.
TEST(ScalingModel, ItsBoundsHoldForTimesThatScatter) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.05);
  std::uniform_real_distribution<double> part(0.001, 0.05);
  int held = 0, all_rounds = 400;
  for (int round = 0; round < all_rounds; ++round) {
    const double a = part(random), c = part(random) / 10, n = part(random), f = part(random);
    std::vector<Measured> all;
    for (const Size& size : {Size{1, 1, 32, 1}, Size{2, 1, 64, 1}, Size{4, 1, 64, 1}, Size{8, 2, 128, 1},
                             Size{8, 2, 256, 1}, Size{16, 4, 256, 1}})
      add(measured(size, formula(size, a, c, n, f) * (1 + noise(random))), &all);
    const auto model = Model::fit(all);
    ASSERT_TRUE(model);
    const Size size{12, 3, 240, 1};
    const Prediction p = model->predict(size);
    const double real = 240 / formula(size, a, c, n, f);
    if (p.low <= real && real <= p.high) ++held;
  }
  EXPECT_GE(held, all_rounds * 9 / 10);
}

TEST(ScalingModel, EfficiencyIsOneAtTheReferenceAndFallsWithTheBatchAsTheNoiseSays) {
  EXPECT_EQ(efficiency(100, 16, 16), 1);
  EXPECT_DOUBLE_EQ(efficiency(0, 16, 64), 0.25);
  EXPECT_DOUBLE_EQ(efficiency(64, 16, 64), 0.625);
  EXPECT_EQ(efficiency(-1, 16, 64), 1) << "not known";
  EXPECT_EQ(efficiency(std::nan(""), 16, 64), 1);
  EXPECT_EQ(efficiency(std::numeric_limits<double>::infinity(), 16, 64), 1);
}

TEST(ScalingModel, TheNextSizeToRunIsANeighbourThatWasNotMeasured) {
  const std::vector<Measured> one{measured({2, 1, 2, 1}, 1)};
  EXPECT_EQ(next_to_probe(one, 2, 1, 8), 4);
  EXPECT_EQ(next_to_probe(one, 2, 1, 3), 3);
  EXPECT_EQ(next_to_probe(one, 2, 1, 2), 1);
  EXPECT_EQ(next_to_probe(one, 2, 2, 2), std::nullopt);
  EXPECT_EQ(next_to_probe({measured({4, 1, 4, 1}, 1), measured({1, 1, 1, 1}, 1)}, 2, 1, 8), std::nullopt);
}

}  // namespace
}  // namespace dl::scaling
