// SPDX-License-Identifier: Apache-2.0
// The sentence that tells what a run has used, and its suggestion.
#include "launcher/use/use_sentence.h"

#include <gtest/gtest.h>

namespace dl::use {
namespace {

constexpr double kGiB = 1 << 30;

size_t at(Phase phase) {
  return static_cast<size_t>(phase);
}

// A run of an hour in which nothing is remarkable.
Facts good_run() {
  Facts facts;
  facts.gpus = facts.gpus_measured = 4;
  facts.gpu_share = facts.gpu_share_in[at(Phase::kTraining)] = 0.91;
  facts.cpus = 8;
  facts.asked = true;
  facts.cpus_used = facts.most_cpus_used = facts.cpus_used_in[at(Phase::kTraining)] = 5.2;
  facts.memory = 20 * kGiB;
  facts.memory_asked = 64 * kGiB;
  facts.seconds = {10, 20, 3600, 0};
  return facts;
}

TEST(UseSentence, SaysWhatWasUsedOfWhat) {
  EXPECT_EQ(sentence(good_run()), "used 91 % of 4 GPUs, 5.2 of 8 CPUs, 20 of 64 GiB");
  Facts facts = good_run();
  facts.gpu_share = 0.314;
  facts.memory = 2.14 * kGiB;
  facts.seconds[at(Phase::kSaving)] = 200;
  facts.memory_asked = 20 * kGiB;
  EXPECT_EQ(sentence(facts), "used 31 % of 4 GPUs, 5.2 of 8 CPUs, 2.1 of 20 GiB; 5 % of the time saving");
}

TEST(UseSentence, WhatWasNotMeasuredIsSaidAndNeverZero) {
  Facts facts = good_run();
  facts.gpu_share.reset();
  facts.gpus_measured = 0;
  EXPECT_EQ(sentence(facts), "used 5.2 of 8 CPUs, 20 of 64 GiB; not measured: 4 GPUs");
  facts.memory.reset();
  EXPECT_EQ(sentence(facts), "used 5.2 of 8 CPUs; not measured: 4 GPUs and memory");
  facts.cpus_used.reset();
  EXPECT_EQ(sentence(facts), "not measured: 4 GPUs, CPUs and memory");
  facts = good_run();
  facts.gpus_measured = 3;
  EXPECT_EQ(sentence(facts), "used 91 % of 3 GPUs, 5.2 of 8 CPUs, 20 of 64 GiB; not measured: 1 other GPU");
  for (const auto& [name, number] : numbers(Facts()))
    EXPECT_EQ(number, 0) << name << ": sums of nothing alone are told";
  EXPECT_EQ(numbers(Facts()).count("cpus_used"), 0U);
}

TEST(UseSentence, AJobWithoutGpusOrLimitsIsToldOfWithoutThem) {
  Facts facts;
  facts.cpus_used = 0.98;
  facts.memory = 210.0 * (1 << 20);
  facts.seconds = {0, 0, 12, 0};
  EXPECT_EQ(sentence(facts), "used 1.0 CPUs, 210 MiB");
  facts.cpus = 1;
  facts.memory_asked = 64 * kGiB;
  EXPECT_EQ(sentence(facts), "used 1.0 of 1 CPU, 210 MiB of 64 GiB");
  facts.cpus_used = 0.001;
  facts.memory = 900;
  EXPECT_EQ(sentence(facts), "used less than 0.1 of 1 CPU, 1 KiB of 64 GiB");
}

TEST(UseSentence, SmallSharesAreNotRoundedToNothing) {
  Facts facts = good_run();
  facts.gpu_share = 0.002;
  EXPECT_EQ(sentence(facts).find("used less than 1 % of 4 GPUs"), 0U);
  facts.gpu_share = 0;
  EXPECT_EQ(sentence(facts).find("used 0 % of 4 GPUs"), 0U) << "measured, and nothing ran";
}

TEST(UseSuggestion, ThereIsNoneForAGoodRunNorForAShortOne) {
  EXPECT_EQ(suggestion(good_run()), "");
  Facts facts = good_run();
  facts.memory = kGiB;
  EXPECT_NE(suggestion(facts), "");
  facts.seconds = {1000, 50, 200, 40};
  EXPECT_EQ(suggestion(facts), "") << "its learners ran for less than five minutes";
}

TEST(UseSuggestion, SavesThatHoldTheTrainingUp) {
  Facts facts = good_run();
  facts.seconds = {0, 0, 3000, 300};
  EXPECT_EQ(suggestion(facts), "") << "9 %";
  facts.seconds = {0, 0, 2640, 360};
  EXPECT_EQ(
      sentence(facts),
      "used 91 % of 4 GPUs, 5.2 of 8 CPUs, 20 of 64 GiB; 12 % of the time saving: save less often, or let saves go "
      "on beside the training (mode=\"lazy\", in C DLCKPT_LAZY)");
}

TEST(UseSuggestion, GpusThatWaitAndWhatTheyWaitForIfThatIsKnown) {
  Facts facts = good_run();
  auto& training = facts.gpu_share_in[at(Phase::kTraining)];
  training = 0.5;
  EXPECT_EQ(suggestion(facts), "");
  training = 0.31;
  EXPECT_EQ(suggestion(facts).find("while it trained, the GPUs computed 31 % of the time: try fewer GPUs"), 0U);
  facts.cpus_used_in[at(Phase::kTraining)] = 7.5;
  EXPECT_EQ(suggestion(facts).find("all CPUs are busy while the GPUs wait"), 0U);
  facts.cpus = 0;
  EXPECT_EQ(suggestion(facts).find("while it trained"), 0U) << "it is not known how many CPUs there are";
  facts.gpus_measured = 3;
  EXPECT_EQ(suggestion(facts), "") << "one GPU is not known";
  facts.gpus_measured = 4;
  training.reset();
  EXPECT_EQ(suggestion(facts), "");
  training = 0.31;
  facts.seconds = {0, 3600, 200, 0};
  EXPECT_EQ(suggestion(facts), "") << "it began to train a moment ago";
}

TEST(UseSuggestion, CpusAndMemoryThatNeverWereInUse) {
  Facts facts = good_run();
  facts.most_cpus_used = 2.1;
  EXPECT_EQ(suggestion(facts), "");
  facts.most_cpus_used = 1.9;
  EXPECT_EQ(suggestion(facts), "never more than 1.9 CPUs were in use: ask for fewer");
  facts.asked = false;
  EXPECT_EQ(suggestion(facts), "") << "they are the machine's";
  facts.memory = 6.5 * kGiB;
  EXPECT_EQ(suggestion(facts), "");
  facts.memory = 3.2 * kGiB;
  EXPECT_EQ(suggestion(facts), "its memory was never more than 5 % in use: 7 GiB in all would leave room");
  facts.memory.reset();
  EXPECT_EQ(suggestion(facts), "") << "not measured";
  facts = good_run();
  facts.memory = 1000;
  facts.memory_asked = kGiB / 2;
  EXPECT_EQ(suggestion(facts), "") << "nobody gains by less";
}

}  // namespace
}  // namespace dl::use
