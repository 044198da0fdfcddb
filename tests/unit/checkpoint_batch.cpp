// SPDX-License-Identifier: Apache-2.0
// dlckpt_batch.h and dlckpt_batch.hpp as programs use them: over the installed headers and the library alone.
#include <gtest/gtest.h>

#include <array>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/include/dlckpt_batch.hpp"

namespace {

using dlckpt::Batch;

class DlckptBatch : public testing::Test {
 protected:
  DlckptBatch() { forget(); }
  ~DlckptBatch() override { forget(); }
  static void forget() {
    for (const char* name : {"DL_BATCH", "DL_GLOBAL_BATCH", "DL_ACCUMULATION", "DL_LR_SCALE", "DL_RANK",
                             "DL_WORLD_SIZE", "DL_ROLE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                             "SLURM_PROCID", "DL_CHECKPOINT", "DL_CHECKPOINT_LOCAL", "DL_CHECKPOINT_MODE"})
      unsetenv(name);
  }
  static void chosen(const char* range, const char* batch, const char* passes, const char* scale) {
    setenv("DL_BATCH", range, 1);
    setenv("DL_GLOBAL_BATCH", batch, 1);
    setenv("DL_ACCUMULATION", passes, 1);
    setenv("DL_LR_SCALE", scale, 1);
  }
};

TEST_F(DlckptBatch, TheLaunchersBatchComesBeforeTheProgramsOwn) {
  auto own = Batch::find(24);
  ASSERT_TRUE(own) << own.message();
  EXPECT_EQ(own->size(), 24);
  EXPECT_EQ(own->local_size(), 24);
  EXPECT_FALSE(own->chosen());
  EXPECT_EQ(own->lr_scale(), 1);
  chosen("16:64:4,rule=linear", "32", "2", "2");
  setenv("DL_RANK", "1", 1);
  setenv("DL_WORLD_SIZE", "4", 1);
  auto batch = Batch::find(24);
  ASSERT_TRUE(batch) << batch.message();
  EXPECT_EQ(batch->size(), 32);
  EXPECT_EQ(batch->local_size(), 8);
  EXPECT_EQ(batch->accumulation(), 2);
  EXPECT_EQ(batch->lr_scale(1e9), 2);
  EXPECT_TRUE(batch->chosen());
  EXPECT_EQ(batch->get().rule, DLCKPT_BATCH_LINEAR);
  EXPECT_EQ(batch->get().reference, 16);
  EXPECT_EQ(batch->get().rank, 1);
  EXPECT_EQ(batch->get().world_size, 4);
}

TEST_F(DlckptBatch, TheLastStepMayBeALittleLargerSoThatEachLearnerHasASample) {
  dlckpt_batch whole{}, last{};
  whole.struct_size = sizeof whole;
  ASSERT_EQ(dlckpt_batch_find(5, 0, 4, &whole), DLCKPT_OK);
  const int64_t kRows[][2] = {{9, 5}, {8, 4}, {7, 7}, {4, 4}, {3, 3}};  // samples that are left, and of the next step
  for (const auto& [left, size] : kRows) {
    ASSERT_EQ(dlckpt_batch_step(&whole, left, &last), DLCKPT_OK);
    EXPECT_EQ(last.batch, size) << left;
  }
}

TEST_F(DlckptBatch, WhatCannotBeIsRefusedWithASentence) {
  auto none = Batch::find();
  ASSERT_FALSE(none);
  EXPECT_NE(none.message().find("--dl-batch"), std::string::npos);
  auto few = Batch::find(3, 0, 4);
  ASSERT_FALSE(few);
  EXPECT_NE(few.message().find("3 samples cannot be divided over 4 learners"), std::string::npos);
  EXPECT_FALSE(Batch::find(-1));
  using Three = std::array<const char*, 3>;
  for (const auto& [batch, passes, scale] :
       {Three{"x", "1", "1"}, Three{"0", "1", "1"}, Three{"4", "5", "1"}, Three{"4", "1", "nan"}, Three{"4", "1", "0"},
        Three{"4", "1", "2x"}, Three{"4", "1", "-1"}, Three{"4", "1", "inf"}}) {
    chosen("2:8", batch, passes, scale);
    EXPECT_FALSE(Batch::find(4)) << batch << " " << passes << " " << scale;
  }
  chosen("8:2", "4", "1", "1");
  EXPECT_FALSE(Batch::find(4));
  dlckpt_batch old{};
  EXPECT_EQ(dlckpt_batch_find(4, 0, 1, &old), DLCKPT_E_INVALID);
  EXPECT_EQ(dlckpt_batch_find(4, 0, 1, nullptr), DLCKPT_E_INVALID);
  EXPECT_EQ(dlckpt_batch_step(&old, 4, &old), DLCKPT_E_INVALID);
  EXPECT_NE(std::string(dlckpt_open_error()).find("not filled in"), std::string::npos);
  EXPECT_EQ(dlckpt_batch_part(&old, 0, nullptr, nullptr), DLCKPT_E_INVALID);
  EXPECT_STREQ(dlckpt_open_error(), "first or count is NULL; allowed: both given");
  EXPECT_EQ(dlckpt_batch_lr_scale(nullptr, 3), 1);
}

// Where the program has chosen a locale, numbers of C have a comma there.
TEST_F(DlckptBatch, TheLaunchersNumbersAreReadInEveryLocale) {
  char folder[] = "/tmp/dl-locale-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = folder;
  const bool made = std::system(("localedef -i de_DE -f UTF-8 " + path + "/de_DE.UTF-8 2>/dev/null").c_str()) == 0;
  setenv("LOCPATH", folder, 1);
  const bool german = made && std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  chosen("2:8,rule=sqrt", "4", "1", "1.5");
  const auto batch = Batch::find(4);
  std::setlocale(LC_ALL, "C");
  unsetenv("LOCPATH");
  std::filesystem::remove_all(path);
  if (!german) GTEST_SKIP() << "localedef cannot make de_DE here";
  ASSERT_TRUE(batch) << batch.message();
  EXPECT_EQ(batch->lr_scale(), 1.5);
}

TEST_F(DlckptBatch, AdascaleScalesByTheNoiseThatTheProgramMeasured) {
  chosen("16:64,rule=adascale", "64", "1", "1");
  auto batch = Batch::find();
  ASSERT_TRUE(batch) << batch.message();
  EXPECT_EQ(batch->lr_scale(), 1);
  EXPECT_EQ(batch->lr_scale(std::nan("")), 1);
  EXPECT_EQ(batch->lr_scale(0), 1);
  EXPECT_EQ(batch->lr_scale(64), 2.5);
  EXPECT_EQ(batch->lr_scale(std::numeric_limits<double>::infinity()), 4);
}

// A training with random sizes, that is started anew at random train steps: each sample is computed once by one
// learner, and each learner has a sample in each pass as long as there are enough.
TEST_F(DlckptBatch, ATrainingSeesEachSampleOnceAtWhateverSizes) {
  std::mt19937 random(19);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 500; ++round) {
    const int64_t total = draw(9, 200);
    std::vector<int> seen(static_cast<size_t>(total));
    int64_t cursor = 0;
    while (cursor < total) {
      const int learners = draw(1, 5), passes = draw(1, 4), size = draw(learners * passes, 60);
      chosen("1:1000", std::to_string(size).c_str(), std::to_string(passes).c_str(), "1");
      std::vector<Batch> parts;
      for (int rank = 0; rank < learners; ++rank) {
        auto found = Batch::find(0, rank, learners);
        ASSERT_TRUE(found) << found.message();
        parts.push_back(*found);
      }
      for (int steps = draw(1, 5); steps > 0 && cursor < total; --steps) {
        const bool enough = total - cursor >= learners;
        const Batch whole = parts[0].step(total - cursor);
        ASSERT_LT(whole.size(), size + learners);
        for (const Batch& part : parts) {
          const Batch step = part.step(total - cursor);
          ASSERT_EQ(step.size(), whole.size());
          int64_t own = 0;
          for (int64_t pass = 0; pass < step.accumulation(); ++pass) {
            const Batch::Part samples = step.part(pass);
            ASSERT_TRUE(samples.count > 0 || !enough);
            own += samples.count;
            for (int64_t i = 0; i < samples.count; ++i) ++seen.at(static_cast<size_t>(cursor + samples.first + i));
          }
          ASSERT_EQ(own, step.local_size());
          ASSERT_EQ(step.part(step.accumulation()).count, 0);
        }
        cursor += whole.size();
      }
    }
    ASSERT_EQ(cursor, total);
    ASSERT_EQ(std::accumulate(seen.begin(), seen.end(), 0), total);
    for (const int times : seen) ASSERT_EQ(times, 1);
  }
}

}  // namespace
