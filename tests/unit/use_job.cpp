// SPDX-License-Identifier: Apache-2.0
// What agents report, added up.
#include "launcher/use/job_use.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace dl::use {
namespace {

using protocol::GpuUse;
using protocol::Use;

constexpr int64_t kMiB = 1 << 20;

size_t at(Phase phase) {
  return static_cast<size_t>(phase);
}

Use use_of(int64_t over_ms, int64_t cpu_ms, int64_t memory = -1, int memory_of = 1) {
  Use use;
  use.over_ms = over_ms;
  use.cpu_ms = cpu_ms;
  use.memory = memory;
  use.memory_of = memory < 0 ? 0 : memory_of;
  return use;
}

GpuUse gpu_use(int64_t over_ms, int gpus, int64_t busy_ms) {
  GpuUse use;
  use.over_ms = over_ms;
  use.gpus = gpus;
  use.busy_ms = busy_ms;
  return use;
}

Given given(size_t learners, int gpus_each = 0) {
  Given one;
  one.learners = learners;
  one.gpus_each = gpus_each;
  one.cpus_each = 2;
  return one;
}

TEST(JobUse, SharesAreWeightedByTime) {
  JobUse job;
  job.begin_attempt(given(2, 2), 0);
  job.all_run(1000);
  job.add(0, gpu_use(1000, 2, 2000), 2000);  // both for a second
  job.add(0, gpu_use(9000, 2, 0), 11'000);   // none for nine
  job.add(1, gpu_use(10'000, 2, 10'000), 11'000);
  const Facts facts = job.facts(11'000);
  EXPECT_EQ(facts.gpus, 4);
  EXPECT_EQ(facts.gpus_measured, 4);
  ASSERT_TRUE(facts.gpu_share);
  EXPECT_DOUBLE_EQ(*facts.gpu_share, 12.0 / 40);
  EXPECT_FALSE(facts.cpus_used);
  EXPECT_FALSE(facts.memory);
  EXPECT_FALSE(facts.joules);
}

TEST(JobUse, CpusAreThoseOfAllLearnersAlsoIfOneReportsSeldom) {
  JobUse job;
  job.begin_attempt(given(2), 0);
  job.all_run(0);
  for (int i = 1; i <= 10; ++i) job.add(0, use_of(1000, 500), i * 1000);
  job.add(1, use_of(10'000, 15'000), 10'000);
  const Facts facts = job.facts(10'000);
  ASSERT_TRUE(facts.cpus_used);
  EXPECT_DOUBLE_EQ(*facts.cpus_used, 2);
  EXPECT_DOUBLE_EQ(*facts.cpu_seconds, 20);
  EXPECT_DOUBLE_EQ(*facts.most_cpus_used, 2);
}

TEST(JobUse, MemoryIsTheMostOfAllAtOneTimeAndUnknownWithoutOne) {
  JobUse job;
  job.begin_attempt(given(3), 0);
  job.all_run(0);
  job.add(0, use_of(1000, 0, 100 * kMiB), 1000);
  job.add(1, use_of(1000, 0, 50 * kMiB), 1000);
  EXPECT_FALSE(job.facts(1000).memory) << "that of learner 2 is not known";
  job.add(2, use_of(1000, 0, 10 * kMiB), 1000);
  job.add(0, use_of(1000, 0, 20 * kMiB), 2000);
  EXPECT_DOUBLE_EQ(*job.facts(2000).memory, 160.0 * kMiB);
  job.ended(0, 2500);
  job.add(1, use_of(1000, 0, 155 * kMiB), 3000);
  EXPECT_DOUBLE_EQ(*job.facts(3000).memory, 165.0 * kMiB) << "what has ended uses none";
}

TEST(JobUse, TheFirstAgentOfANodeMayTellTheMemoryOfAllThere) {
  JobUse job;
  job.begin_attempt(given(3), 0);
  job.all_run(0);
  job.add(0, use_of(1000, 0, 300 * kMiB, 2), 1000);
  job.add(1, use_of(1000, 0), 1000);
  EXPECT_FALSE(job.facts(1000).memory);
  job.add(2, use_of(1000, 0, 100 * kMiB, 1), 1000);
  EXPECT_DOUBLE_EQ(*job.facts(1000).memory, 400.0 * kMiB);
}

TEST(JobUse, TimeAndUseGoToThePhaseInWhichTheyWere) {
  JobUse job;
  job.begin_attempt(given(1, 1), 0);
  job.all_run(10'000);
  job.progressed(0, false, false, 12'000);
  job.progressed(0, true, false, 20'000);
  job.progressed(0, true, true, 28'000);
  job.progressed(0, true, false, 30'000);
  job.add(0, gpu_use(10'000, 1, 5000), 30'000);
  job.add(0, use_of(10'000, 10'000), 30'000);
  job.end_attempt(30'000);
  const Facts facts = job.facts(31'000);
  EXPECT_DOUBLE_EQ(facts.seconds[at(Phase::kWaiting)], 11);
  EXPECT_DOUBLE_EQ(facts.seconds[at(Phase::kStarting)], 10);
  EXPECT_DOUBLE_EQ(facts.seconds[at(Phase::kTraining)], 8);
  EXPECT_DOUBLE_EQ(facts.seconds[at(Phase::kSaving)], 2);
  EXPECT_FALSE(facts.gpu_share_in[at(Phase::kStarting)]);
  EXPECT_DOUBLE_EQ(*facts.gpu_share_in[at(Phase::kTraining)], 0.5);
  EXPECT_DOUBLE_EQ(*facts.gpu_share_in[at(Phase::kSaving)], 0.5);
  EXPECT_DOUBLE_EQ(*facts.cpus_used_in[at(Phase::kSaving)], 1);
}

TEST(JobUse, AProgramThatNeverSaysItsTrainStepTrainsAllTheTime) {
  JobUse job;
  job.begin_attempt(given(1), 0);
  job.all_run(1000);
  job.add(0, use_of(5000, 5000), 6000);
  const Facts facts = job.facts(6000);
  EXPECT_DOUBLE_EQ(facts.seconds[at(Phase::kTraining)], 5);
  EXPECT_DOUBLE_EQ(facts.seconds[at(Phase::kStarting)], 0);
  EXPECT_DOUBLE_EQ(*facts.cpus_used_in[at(Phase::kTraining)], 1);
}

TEST(JobUse, SeveralLearnersSaveAndOneMayEndInIt) {
  JobUse job;
  job.begin_attempt(given(2), 0);
  job.all_run(0);
  job.progressed(0, true, true, 0);
  job.progressed(1, true, true, 1000);
  job.progressed(0, true, false, 2000);
  job.ended(1, 3000);
  job.progressed(1, true, true, 3500);
  EXPECT_DOUBLE_EQ(job.facts(4000).seconds[at(Phase::kSaving)], 3);
}

TEST(JobUse, AttemptsAreAddedUp) {
  JobUse job;
  for (const int64_t begin : {0, 100'000}) {
    job.begin_attempt(given(1, 1), begin);
    job.all_run(begin + 1000);
    job.add(0, gpu_use(10'000, 1, begin == 0 ? 10'000 : 0), begin + 11'000);
    job.end_attempt(begin + 11'000);
  }
  const Facts facts = job.facts(111'000);
  EXPECT_DOUBLE_EQ(*facts.gpu_share, 0.5);
  EXPECT_EQ(facts.gpus_measured, 1);
  EXPECT_DOUBLE_EQ(facts.seconds[at(Phase::kTraining)], 20);
}

TEST(JobUse, MemoryOfGpusIsThatOfLearnersThatRun) {
  JobUse job;
  job.begin_attempt(given(2, 1), 0);
  job.all_run(0);
  const auto add = [&job](int rank, int64_t memory, int64_t now_ms) {
    GpuUse gpu = gpu_use(1000, 1, 500);
    gpu.memory = memory;
    job.add(rank, gpu, now_ms);
  };
  add(0, 100 * kMiB, 1000);
  add(1, 10 * kMiB, 1000);
  job.ended(0, 1500);
  add(1, 60 * kMiB, 2000);
  EXPECT_DOUBLE_EQ(*job.facts(2000).gpu_memory, 110.0 * kMiB) << "what has ended uses none";
}

TEST(JobUse, GpusThatAreMeasuredAreThoseOfTheNewestAttemptInWhichAnyWas) {
  JobUse job;
  job.begin_attempt(given(2, 2), 0);
  job.all_run(0);
  for (const int rank : {0, 1}) job.add(rank, gpu_use(1000, 2, 1000), 1000);
  EXPECT_EQ(job.facts(1000).gpus_measured, 4);
  job.begin_attempt(given(2, 2), 2000);
  job.all_run(2000);
  EXPECT_EQ(job.facts(2000).gpus_measured, 4) << "it may end before it has told anything";
  job.add(0, gpu_use(1000, 2, 1000), 3000);
  EXPECT_EQ(job.facts(3000).gpus_measured, 2);
}

TEST(JobUse, WhatCannotBeIsIgnored) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  JobUse job;
  job.begin_attempt(given(1, 1), 0);
  job.all_run(0);
  for (const int rank : {-1, 1, 1'000'000}) {
    job.add(rank, use_of(1000, 1000, kMiB), 1000);
    job.add(rank, gpu_use(1000, 1, 500), 1000);
    job.progressed(rank, true, true, 1000);
    job.ended(rank, 1000);
  }
  for (const int64_t over : {kLeast, int64_t{-1}, int64_t{0}, kMost}) {
    job.add(0, use_of(over, 1000), 1000);
    job.add(0, gpu_use(over, 1, 500), 1000);
  }
  job.add(0, use_of(1000, kMost, kMost), 1000);
  job.add(0, use_of(1000, kLeast, kLeast), 1000);
  job.add(0, gpu_use(1000, 1, 1100), 1000);
  job.add(0, gpu_use(1000, -1, -5), 1000);
  job.add(0, gpu_use(1000, std::numeric_limits<int>::max(), kMost), 1000);
  const Facts facts = job.facts(1000);
  EXPECT_FALSE(facts.gpu_share);
  EXPECT_FALSE(facts.cpus_used);
  EXPECT_FALSE(facts.memory);
  EXPECT_EQ(facts.gpus_measured, 0);
}

TEST(JobUse, APointIsOfAllLearnersOrThereIsNone) {
  JobUse job;
  job.begin_attempt(given(2, 1), 0);
  job.all_run(0);
  Use use = use_of(10'000, 5000, 100 * kMiB);
  use.read = 1'000'000;
  job.add(0, use, 10'000);
  EXPECT_TRUE(job.now(10'000).empty()) << "learner 1 has told nothing";
  job.add(1, use_of(10'000, 20'000, 50 * kMiB), 10'000);
  GpuUse gpu = gpu_use(10'000, 1, 5000);
  gpu.milliwatts = 250'000;
  job.add(0, gpu, 10'000);
  job.add(1, gpu_use(10'000, 1, 10'000), 10'000);
  const auto found = job.now(11'000);
  std::map<std::string, double> points(found.begin(), found.end());
  EXPECT_DOUBLE_EQ(points["gpu_used_percent"], 75);
  EXPECT_DOUBLE_EQ(points["cpus_used"], 2.5);
  EXPECT_DOUBLE_EQ(points["memory_bytes"], 150.0 * kMiB);
  EXPECT_EQ(points.count("gpu_watts"), 0U) << "one GPU does not tell its power";
  EXPECT_EQ(points.count("read_bytes_per_s"), 0U);
  job.ended(1, 11'500);
  EXPECT_DOUBLE_EQ(job.now(12'000).front().second, 50) << "of those that run";
  EXPECT_TRUE(job.now(1'000'000).empty()) << "long ago";
}

TEST(JobUse, OfEachLearnerItIsToldWhatWasMeasuredOfIt) {
  JobUse job;
  job.begin_attempt(given(3, 2), 0);
  job.all_run(0);
  for (int i = 1; i <= 2; ++i) {
    Use use = use_of(10'000, i * 5000, 900 * kMiB, 2);  // of the whole node
    use.own_memory = i * 100 * kMiB;
    use.written = 1000;
    job.add(0, use, i * 10'000);
    GpuUse gpu = gpu_use(10'000, 2, i * 5000);
    gpu.sm_ms = i * 2500;
    gpu.memory = (3 - i) * kMiB;
    job.add(0, gpu, i * 10'000);
  }
  job.add(1, use_of(10'000, 2000, 30 * kMiB), 20'000);
  job.add(1, gpu_use(10'000, 2, 0), 20'000);
  job.ended(0, 20'000);
  const std::map<std::string, double> first = learner_numbers(job.facts_of(0)),
                                      second = learner_numbers(job.facts_of(1));
  EXPECT_DOUBLE_EQ(first.at("cpus_used"), 0.75);
  EXPECT_DOUBLE_EQ(first.at("most_cpus_used"), 1);
  EXPECT_DOUBLE_EQ(first.at("cpu_seconds"), 15);
  EXPECT_DOUBLE_EQ(first.at("gpu_share"), 15.0 / 40);
  EXPECT_DOUBLE_EQ(first.at("gpu_sm_share"), 7.5 / 40);
  EXPECT_DOUBLE_EQ(first.at("gpu_memory_bytes"), 2.0 * kMiB);
  EXPECT_DOUBLE_EQ(first.at("memory_bytes"), 200.0 * kMiB) << "not that of the node";
  EXPECT_DOUBLE_EQ(first.at("written_bytes"), 2000);
  EXPECT_EQ(first.count("read_bytes"), 0U);
  EXPECT_EQ(first.count("gpu_joules"), 0U);
  EXPECT_DOUBLE_EQ(second.at("memory_bytes"), 30.0 * kMiB) << "it is alone there";
  EXPECT_DOUBLE_EQ(second.at("gpu_share"), 0);
  EXPECT_EQ(second.count("gpu_sm_share"), 0U) << "its GPUs do not tell it";
  EXPECT_TRUE(learner_numbers(job.facts_of(2)).empty()) << "nothing is known of it, and that is not 0";
  EXPECT_TRUE(learner_numbers(job.facts_of(3)).empty());
  EXPECT_TRUE(learner_numbers(job.facts_of(-1)).empty());
  EXPECT_DOUBLE_EQ(*job.facts(20'000).sm_share, 7.5 / 40) << "of those that tell it";
  job.begin_attempt(given(3, 2), 30'000);
  EXPECT_TRUE(learner_numbers(job.facts_of(0)).empty()) << "of the newest attempt";
}

TEST(JobUse, SmsThatCannotBeAreNotMeasured) {
  JobUse job;
  job.begin_attempt(given(1, 1), 0);
  job.all_run(0);
  GpuUse gpu = gpu_use(10'000, 1, 5000);
  job.add(0, gpu, 10'000);
  EXPECT_FALSE(job.facts(10'000).sm_share);
  gpu.sm_ms = 4000;
  job.add(0, gpu, 20'000);
  const auto found = job.now(20'000);
  const std::map<std::string, double> points(found.begin(), found.end());
  EXPECT_DOUBLE_EQ(points.at("gpu_sm_percent"), 40);
  gpu.sm_ms = 40'000;
  job.add(0, gpu, 30'000);
  EXPECT_DOUBLE_EQ(*job.facts(30'000).sm_share, 0.4);
  for (const auto& [name, value] : job.now(30'000)) EXPECT_STRNE(name, "gpu_sm_percent") << value;
}

}  // namespace
}  // namespace dl::use
