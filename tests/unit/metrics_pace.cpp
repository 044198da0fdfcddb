// SPDX-License-Identifier: Apache-2.0
// How fast a training goes, and how much of it is left, from its values and from what its log counts to.
#include "launcher/metrics/pace.h"

#include <gtest/gtest.h>

#include <cmath>

#include "launcher/metrics/found.h"
#include "launcher/metrics/usual_lines.h"

namespace dl::metrics {
namespace {

constexpr int64_t kT = 1'790'000'000'000;

SeriesFile file_of(std::vector<Series> series) {
  SeriesFile file;
  file.series = std::move(series);
  return file;
}

int64_t total_of(const std::vector<std::string>& lines) {
  UsualLines usual;
  std::vector<Found> found;
  for (const std::string& line : lines) usual.read(line, &found);
  return usual.total;
}

TEST(PaceTest, LinesTellHowLongTheTrainingIs) {
  EXPECT_EQ(total_of({"step 120/1000: loss=0.3"}), 1000);
  EXPECT_EQ(total_of({" 10%|#         | 100/1000 [00:01<00:09, 9.9it/s, loss=0.33]"}), 1000);
  EXPECT_EQ(total_of({"Epoch 1/5", "1875/1875 [====] - 3s 1ms/step - loss: 0.2945"}), 9375);
  EXPECT_EQ(total_of({"Epoch: [0][  10/5005]  Loss 7.0 (7.0)"}), 0);
  EXPECT_EQ(total_of({"step 120: loss=0.3"}), 0);
  EXPECT_EQ(total_of({"step 120/100: loss=0.3"}), 0);
  EXPECT_EQ(total_of({"step 120/"}), 0);
  EXPECT_EQ(total_of({"step 120/99999999999999999999: loss=0.3"}), 0);
}

TEST(PaceTest, ABarThatBeginsAnewIsThatOfAnEpoch) {
  std::vector<std::string> lines = {" 50%|# | 50/100 [00:01<00:09]", "100%|##| 100/100 [00:02<00:00]"};
  EXPECT_EQ(total_of(lines), 100);
  lines.emplace_back("  0%|  | 1/100 [00:00<00:20]");
  EXPECT_EQ(total_of(lines), 0);
  lines.emplace_back(" 50%|  | 50/100 [00:00<00:20]");
  EXPECT_EQ(total_of(lines), 0);
  // Shorter ones are of evaluations.
  EXPECT_EQ(total_of({" 5%|# | 50/1000 [00:01<00:09]", " 50%|# | 5/10 [00:01<00:09]", "100%|##| 10/10 [00:01<00:00]",
                      " 5%|# | 51/1000 [00:01<00:09]", " 10%|# | 1/10 [00:01<00:09]"}),
            1000);
}

TEST(PaceTest, TheLaunchersRateCountsFirst) {
  const Pace pace =
      pace_of(file_of({{std::string(kLauncher), "train_steps_per_s", {{kT, 40, 2.5}, {kT + 10'000, 80, 4}}},
                       {std::string(kLauncher), "samples_per_s", {{kT, 40, 80}, {kT + 10'000, 80, 128}}},
                       {"train", "loss", {{kT, 10, 0.5}, {kT + 1000, 90, 0.25}}},
                       {"train", "ce_loss", {{kT, 10, 9}}}}));
  EXPECT_EQ(pace.steps_per_s, 4);
  EXPECT_EQ(pace.samples_per_s, 128);
  EXPECT_EQ(pace.rate_ms, kT + 10'000);
  EXPECT_EQ(pace.loss, 0.25);
  EXPECT_EQ(pace.loss_name, "loss");
  EXPECT_EQ(pace.step, 90);
  EXPECT_EQ(pace.total, 0);
}

TEST(PaceTest, ElseTheRateIsThatOfTheValues) {
  Series loss{"train", "loss", {}};
  for (int i = 0; i < 100; ++i) loss.points.push_back({kT + i * 1000, i * 5, 0.5});
  Pace pace = pace_of(file_of({loss}));
  ASSERT_TRUE(pace.steps_per_s);
  EXPECT_DOUBLE_EQ(*pace.steps_per_s, 5);
  EXPECT_EQ(pace.rate_ms, kT + 99'000);
  EXPECT_TRUE(is_fresh(pace, kT + 150'000));
  EXPECT_FALSE(is_fresh(pace, kT + 160'000));
  // Values without train steps, of one moment, or of a clock that was set back tell no rate.
  for (const std::vector<Point>& points : {std::vector<Point>{},
                                           {{kT, 1, 0}},
                                           {{kT, kNoStep, 0}, {kT + 5000, kNoStep, 0}},
                                           {{kT, 1, 0}, {kT, 9, 0}},
                                           {{kT, 5, 0}, {kT + 5000, 5, 0}},
                                           {{kT + 5000, 1, 0}, {kT, 5, 0}},
                                           {{kT, 9, 0}, {kT + 5000, 1, 0}}})
    EXPECT_FALSE(pace_of(file_of({{"train", "loss", points}})).steps_per_s);
}

TEST(PaceTest, SlowTrainStepsAreFreshForLonger) {
  Pace pace;
  pace.steps_per_s = 0.01;
  pace.rate_ms = kT;
  EXPECT_TRUE(is_fresh(pace, kT + 400'000));
  EXPECT_FALSE(is_fresh(pace, kT + 600'000));
}

TEST(PaceTest, WhatIsLeftFollowsFromTheTotal) {
  Pace pace;
  EXPECT_FALSE(left_ms(pace, 5));
  pace.steps_per_s = 2;
  EXPECT_FALSE(left_ms(pace, 5));
  pace.total = 100;
  EXPECT_EQ(left_ms(pace, 40), 30'000);
  EXPECT_EQ(left_ms(pace, 100), 0);
  EXPECT_EQ(left_ms(pace, 150), 0);
  EXPECT_FALSE(left_ms(pace, -1));
  pace.steps_per_s = 1e-300;
  EXPECT_FALSE(left_ms(pace, 40));
}

TEST(PaceTest, TheTotalIsReportedOrCountedToInTheLog) {
  SeriesFile file = file_of({{"train", "loss", {{kT, 120, 0.5}}}});
  file.positions[kTotalPosition] = 1000;
  EXPECT_EQ(pace_of(file).total, 0);  // it is not known how far the log has counted
  file.positions[kCountedPosition] = 121;
  EXPECT_EQ(pace_of(file).total, 1000);
  file.series.push_back({"train", "total_steps", {{kT, 0, 2000}}});
  EXPECT_EQ(pace_of(file).total, 2000);
  for (const double odd : {std::nan(""), HUGE_VAL, -5.0, 0.0, 1e30}) {
    file.series[1].points = {{kT, 0, odd}};
    EXPECT_EQ(pace_of(file).total, 1000) << odd;
  }
  // Less than what is done already: it is the total of something else.
  file.series[1].points = {{kT, 0, 50}};
  EXPECT_EQ(pace_of(file).total, 0);
}

TEST(PaceTest, ALogThatCountsSomethingElseSaysNothing) {
  SeriesFile file = file_of({{"train", "loss", {{kT, 1000, 0.5}}}});
  file.positions[kTotalPosition] = 20'000;
  file.positions[kCountedPosition] = 4001;  // batches, four of which make a train step
  EXPECT_EQ(pace_of(file).total, 0);
  file.positions[kCountedPosition] = 951;  // the newest line is some train steps old
  EXPECT_EQ(pace_of(file).total, 20'000);
  file.positions[kTotalPosition] = UINT64_MAX;
  EXPECT_EQ(pace_of(file).total, 0);
}

TEST(PaceTest, TheNextSaveIsDueAsTheJobHasAsked) {
  Pace pace;
  EXPECT_EQ(next_save_ms(pace, 600'000, 0, 5, kT, kT + 1000), kT + 600'000);
  EXPECT_EQ(next_save_ms(pace, 600'000, 0, 5, 0, kT + 1000), 0);
  EXPECT_EQ(next_save_ms(pace, 0, 0, 5, kT, kT + 1000), 0);
  EXPECT_EQ(next_save_ms(pace, 0, 100, 40, kT, kT), 0);
  pace.steps_per_s = 2;
  pace.rate_ms = kT;
  EXPECT_EQ(next_save_ms(pace, 0, 100, 40, kT, kT), kT + 30'000);
  EXPECT_EQ(next_save_ms(pace, 0, 100, 100, kT, kT), kT + 50'000);
  EXPECT_EQ(next_save_ms(pace, 0, 100, -1, kT, kT), 0);
  pace = pace_of(file_of({{std::string(kLauncher), "save_s", {{kT, 10, 1.5}, {kT + 90'000, 20, 1.5}}}}));
  EXPECT_EQ(next_save_ms(pace, 600'000, 0, 25, kT, kT + 100'000), kT + 690'000);
  EXPECT_EQ(next_save_ms(pace, 0, 0, 25, kT, kT + 100'000), kT + 180'000);  // every=auto
}

TEST(PaceTest, WhatIsUsedIsThatOfThisMomentOrNotKnown) {
  SeriesFile file = file_of({{"use", "gpu_used_percent", {{kT - 10'000, 1, 10}, {kT, 2, 0}}},
                             {"use", "cpus_used", {{kT, 2, 3.25}}},
                             {"train", "cpus_used", {{kT, 2, 99}}}});
  EXPECT_EQ(use_now(file, kT + 10'000).gpu_percent, 0);
  EXPECT_EQ(use_now(file, kT + 10'000).cpus, 3.25);
  EXPECT_FALSE(use_now(file, kT + 120'000).gpu_percent);
  file.series[1].points[0].value = std::nan("");
  EXPECT_FALSE(use_now(file, kT).cpus);
  EXPECT_FALSE(use_now({}, kT).gpu_percent);
}

}  // namespace
}  // namespace dl::metrics
