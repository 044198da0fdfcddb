// SPDX-License-Identifier: Apache-2.0
// scaling.json: round trips, damaged texts, and what is taken from earlier jobs.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "launcher/record/scaling_record.h"

namespace dl::record {
namespace {

scaling::Measured measured(const scaling::Size& size, double step_s, int64_t time_s) {
  scaling::Measured one;
  one.size = size;
  one.step_s = step_s;
  one.spread_s = step_s / 100;
  one.steps = 40;
  one.time_s = time_s;
  return one;
}

ScalingRecord example() {
  ScalingRecord record;
  record.name = "train \"1\"";
  record.framework = "pytorch";
  record.gpu_type = "a100";
  record.gpus_per_learner = 2;
  record.asked = {1, 8};
  record.batch = "16:128:4,rule=linear";
  record.now = {4, 2, 64, 2};
  record.noise = 32.5;
  record.measured = {measured({1, 1, 16, 1}, 0.25, 100), measured({4, 2, 64, 2}, 0.375, 200)};
  return record;
}

TEST(ScalingRecord, ComesBackAsItWasWritten) {
  const ScalingRecord record = example();
  const auto back = parse_scaling(format_scaling(record));
  ASSERT_TRUE(back) << back.error().text;
  EXPECT_EQ(format_scaling(*back), format_scaling(record));
  EXPECT_EQ(back->name, record.name);
  EXPECT_EQ(back->asked.max, 8);
  EXPECT_EQ(back->noise, 32.5);
  ASSERT_EQ(back->measured.size(), 2U);
  EXPECT_EQ(back->measured[1].step_s, 0.375);
  EXPECT_TRUE(back->measured[1].size == record.now);
}

TEST(ScalingRecord, WhatIsNoRecordIsRefusedAndNonsenseLeftOut) {
  for (const char* text : {"", "[]", "{}", "{\"version\":2}", "{\"version\":\"1\"}",
                           "{\"version\":1,\"measured\":[{\"learners\":\"x\"}]}", "{\"version\":1,\"name\":7}"})
    EXPECT_FALSE(parse_scaling(text)) << text;
  EXPECT_FALSE(parse_scaling(std::string(kMostScalingBytes + 1, ' ')));
  const auto odd = parse_scaling(
      "{\"version\":1,\"least_learners\":-5,\"most_learners\":99999999999999,\"measured\":["
      "{\"learners\":1,\"nodes\":1,\"batch\":1,\"passes\":1,\"step_s\":-1,\"steps\":5},"
      "{\"learners\":9223372036854775807,\"nodes\":1,\"batch\":1,\"passes\":1,\"step_s\":1,\"steps\":5},"
      "{\"learners\":2,\"nodes\":1,\"batch\":4,\"passes\":1,\"step_s\":1,\"steps\":5}]}");
  ASSERT_TRUE(odd) << odd.error().text;
  EXPECT_EQ(odd->measured.size(), 1U);
  EXPECT_EQ(odd->asked.min, 1);
  EXPECT_EQ(odd->asked.max, kMaxLearners);
}

TEST(ScalingRecord, DamagedTextsNeverCrashOrGiveWhatIsNotSane) {
  const std::string good = format_scaling(example());
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change)
      text[random() % text.size()] = static_cast<char>("0123456789-e.,:{}[]\"xn"[random() % 22]);
    const auto record = parse_scaling(text);
    if (!record) continue;
    for (const scaling::Measured& one : record->measured) ASSERT_TRUE(scaling::sane(one));
    ASSERT_LE(1, record->asked.min);
    ASSERT_LE(record->asked.min, record->asked.max);
  }
}

TEST(ScalingRecord, OtherSizesHaveTheirBatchAndTheirNodes) {
  const ScalingRecord record = example();
  EXPECT_TRUE(*size_of(record, 4) == (scaling::Size{4, 2, 64, 1}));
  EXPECT_TRUE(*size_of(record, 8) == (scaling::Size{8, 4, 128, 1}));
  EXPECT_TRUE(*size_of(record, 1) == (scaling::Size{1, 1, 16, 1}));
  ScalingRecord without = record;
  without.batch.clear();
  EXPECT_TRUE(*size_of(without, 6) == (scaling::Size{6, 3, 6, 1}));
  without.batch = "1:2";
  EXPECT_FALSE(size_of(without, 8));
}

class EarlierJobs : public testing::Test {
 protected:
  EarlierJobs() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dl-scaling-XXXXXX").string();
    if (!mkdtemp(pattern.data())) std::abort();
    folder_ = pattern;
  }
  ~EarlierJobs() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void job(const std::string& name, const ScalingRecord& record) const {
    std::filesystem::create_directory(folder_ + "/" + name);
    std::ofstream(folder_ + "/" + name + "/scaling.json") << format_scaling(record);
  }
  std::string folder_;
};

TEST_F(EarlierJobs, OfTheSameTrainingTellWhatTheyMeasured) {
  ScalingRecord record = example();
  record.measured = {measured({1, 1, 16, 1}, 0.5, 100)};
  job("dl-9", record);
  record.measured = {measured({2, 1, 32, 1}, 0.75, 200), measured({1, 1, 16, 1}, 0.25, 50)};
  job("dl-10", record);
  record.measured = {measured({8, 1, 128, 1}, 2, 300)};
  job("dl-12", record);
  ScalingRecord other = example();
  other.name = "evaluate";
  job("dl-11", other);
  std::filesystem::create_directory(folder_ + "/elsewhere");
  std::ofstream(folder_ + "/elsewhere/scaling.json") << format_scaling(example());
  std::filesystem::create_directory_symlink(folder_ + "/elsewhere", folder_ + "/dl-8");
  std::filesystem::create_directory(folder_ + "/dl-7");
  std::ofstream(folder_ + "/dl-7/scaling.json") << "{\"version\":1,";
  std::filesystem::create_directory(folder_ + "/dl-6");
  ASSERT_EQ(::mkfifo((folder_ + "/dl-6/scaling.json").c_str(), 0600), 0);

  const auto all = earlier_measurements(folder_ + "/dl-12", example(), ::getuid());
  ASSERT_EQ(all.size(), 3U) << "of one size once, and its own";
  for (const scaling::Measured& one : all) EXPECT_TRUE(one.size.learners != 1 || one.step_s == 0.5) << "the newer one";
  EXPECT_TRUE(earlier_measurements(folder_ + "/dl-12", example(), ::getuid() + 1).empty()) << "another user's";
  EXPECT_TRUE(earlier_measurements("/nowhere/dl-1", example(), ::getuid()).empty());
  EXPECT_TRUE(earlier_measurements("", example(), ::getuid()).empty());
}

}  // namespace
}  // namespace dl::record
