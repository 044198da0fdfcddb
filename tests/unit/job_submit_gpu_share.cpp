// SPDX-License-Identifier: Apache-2.0
// How many CPUs and how much memory a job may ask for beside its GPUs.
#include <gtest/gtest.h>

#include <limits>

#include "slurm-plugin/job_submit/gpu_share.h"
#include "slurm-plugin/job_submit/modify_guard.h"

namespace dl {
namespace {

SiteConfig site_of(const std::string& limits) {
  auto config =
      parse_site_config("[nodes]\ntypes = { a100 = 8 }\n[tenants.vision]\nquota = 8\n[quota]\n" + limits, "dl.toml");
  EXPECT_TRUE(config) << config.error().text;
  return *config;
}

const char* const kBoth = "max_cpus_per_gpu = 16\nmax_memory_per_gpu = \"64GiB\"\n";
constexpr int64_t kGiB = 1024;  // in MiB

// What is wrong with the submission; empty: nothing.
std::string said(const Submission& given, const std::string& limits = kBoth) {
  const SiteConfig site = site_of(limits);
  const auto gpus = count_gpus(given, site, GpuRule{});
  if (!gpus) return gpus.error().text;
  const Status share = check_share(given, *gpus, site);
  if (share) return "";
  EXPECT_EQ(share.error().code, Errc::kNoSpace);
  return share.error().text;
}

Submission with_gpus(const std::string& per_node) {
  Submission given;
  given.batch = true;
  given.tres_per_node = "gres:gpu:" + per_node;
  return given;
}

TEST(GpuShare, is_not_limited_unless_the_site_says_so) {
  Submission given = with_gpus("1");
  given.cpus_per_task = 128;
  given.memory_per_node = 0;
  EXPECT_EQ(said(given, ""), "");
  EXPECT_EQ(said(given, "max_memory_per_gpu = \"64GiB\"").find("the job asks for all memory of its nodes"), 0U);
  EXPECT_EQ(
      said(given, "max_cpus_per_gpu = 16"),
      "the job asks for 128 CPUs with 1 GPU on 1 node, and would leave other GPUs there without; allowed: 16 CPUs for "
      "each GPU (-c, -n or --cpus-per-gpu)");
  Submission without;
  without.tasks = 1000;
  without.memory_per_node = 0;
  EXPECT_EQ(said(without), "") << "a job without GPUs";
}

TEST(GpuShare, of_cpus_counts_every_way_to_ask_for_them) {
  struct Row {
    const char* what;
    void (*ask)(Submission* given, int64_t cpus);
  };
  const Row rows[] = {
      {"-c", [](Submission* given, int64_t cpus) { given->cpus_per_task = cpus; }},
      {"-n", [](Submission* given, int64_t cpus) { given->tasks = cpus, given->min_nodes = given->max_nodes = 1; }},
      {"-n -c",
       [](Submission* given, int64_t cpus) {
         given->tasks = (cpus + 1) / 2, given->cpus_per_task = 2, given->min_nodes = given->max_nodes = 1;
       }},
      {"--ntasks-per-node", [](Submission* given, int64_t cpus) { given->tasks_per_node = cpus; }},
      {"--mincpus", [](Submission* given, int64_t cpus) { given->cpus_per_node = cpus; }},
      {"sbatch's own sum", [](Submission* given, int64_t cpus) { given->min_cpus = cpus; }},
      {"the most that it may get", [](Submission* given, int64_t cpus) { given->max_cpus = cpus; }},
      {"-O -c", [](Submission* given, int64_t cpus) { given->cpus_per_task = cpus, given->overcommit = true; }},
      {"--cpus-per-gpu", [](Submission* given, int64_t cpus) { given->cpus_of_gpu = (cpus + 1) / 2; }}};
  for (const Row& row : rows) {
    Submission given = with_gpus("2");
    row.ask(&given, 32);
    EXPECT_EQ(said(given), "") << row.what;
    row.ask(&given, 33);
    EXPECT_NE(said(given), "") << row.what;
  }
}

TEST(GpuShare, of_memory_counts_every_way_to_ask_for_it) {
  Submission given = with_gpus("2");
  given.memory_per_node = 128 * kGiB;
  EXPECT_EQ(said(given), "");
  given.memory_per_node = 128 * kGiB + 1;
  EXPECT_EQ(said(given).find("the job asks for 128 GiB of memory with 2 GPUs"), 0U) << said(given);
  given.memory_per_node.reset();
  given.memory_per_gpu = 64 * kGiB;
  EXPECT_EQ(said(given), "");
  given.memory_per_gpu = 65 * kGiB;
  EXPECT_NE(said(given), "");
  given.memory_per_gpu.reset();
  given.cpus_per_task = 32;
  given.memory_per_cpu = 4 * kGiB;
  EXPECT_EQ(said(given), "");
  given.memory_per_cpu = 4 * kGiB + 1;
  EXPECT_NE(said(given), "");
}

TEST(GpuShare, of_a_job_that_takes_whole_nodes_may_be_all_their_memory) {
  Submission given = with_gpus("7");
  given.memory_per_node = 0;
  EXPECT_NE(said(given), "");
  given.memory_per_node.reset();
  given.memory_per_cpu = 0;
  EXPECT_NE(said(given), "");
  given = with_gpus("8");
  given.memory_per_node = 0;
  EXPECT_EQ(said(given), "");
  given = Submission();
  given.exclusive = true;
  given.memory_per_node = 0;
  EXPECT_EQ(said(given), "");
}

// It leaves no GPU without, whichever option asks for all of them.
TEST(GpuShare, of_a_job_that_takes_whole_nodes_is_not_limited) {
  Submission given;
  given.cpus_per_task = 200;
  given.memory_per_node = 900 * kGiB;
  given.tres_per_task = "gres:gpu:8";
  EXPECT_EQ(said(given), "") << "one learner";
  given.tasks = 2;
  EXPECT_EQ(said(given), "") << "two learners";
  given.tres_per_task = "gres:gpu:7";
  EXPECT_NE(said(given), "");
  given.tasks.reset();
  given.tres_per_task.clear();
  given.tres_per_job = "gres:gpu:8";
  EXPECT_NE(said(given), "") << "these may be on eight nodes";
  given.min_nodes = given.max_nodes = 1;
  EXPECT_EQ(said(given), "");
  given.min_nodes = given.max_nodes = 2;
  EXPECT_NE(said(given), "");
}

// Slurm gives GPUs for the whole job on as many nodes as it likes, also if there is one task: 9 are 8 and 1.
TEST(GpuShare, counts_the_nodes_that_one_task_may_get) {
  Submission given;
  given.batch = true;
  given.tres_per_job = "gres:gpu:9";
  given.memory_per_node = 9 * 64 * kGiB;
  EXPECT_NE(said(given).find("-N"), std::string::npos) << said(given);
  given.memory_per_node = 64 * kGiB;
  EXPECT_EQ(said(given), "");
}

// Of GPUs for the whole job, Slurm may put one on each of so many nodes.
TEST(GpuShare, is_that_of_the_largest_and_the_smallest_number_of_nodes) {
  Submission given;
  given.batch = true;
  given.tres_per_job = "gres:gpu:4";
  given.tasks = 4;
  given.memory_per_node = 64 * kGiB;
  EXPECT_EQ(said(given), "");
  given.memory_per_node = 65 * kGiB;
  EXPECT_NE(said(given), "");
  given.min_nodes = given.max_nodes = 1;
  EXPECT_EQ(said(given), "");
  given = with_gpus("2");
  given.min_nodes = 1;
  given.max_nodes = 4;
  given.min_cpus = 33;
  EXPECT_NE(said(given), "") << "on one node";
  given.min_nodes = 2;
  EXPECT_EQ(said(given), "");
}

TEST(GpuShare, of_the_largest_numbers_is_no_overflow) {
  Submission given = with_gpus("1");
  given.tasks_per_node = given.cpus_per_task = given.cpus_per_node = 65533;
  given.min_nodes = given.max_nodes = 1'000'000;
  given.tasks = given.min_cpus = std::numeric_limits<uint32_t>::max() - 2;
  given.memory_per_cpu = given.memory_per_gpu = given.memory_per_node = std::numeric_limits<int64_t>::max();
  EXPECT_NE(said(given, "max_memory_per_gpu = \"1GiB\""), "");
  EXPECT_NE(said(given, "max_cpus_per_gpu = 2000"), "");
}

TEST(GpuShare, is_read_from_what_slurm_sends) {
  EXPECT_EQ(count_of_gpu("gres:gpu:4"), 4);
  EXPECT_EQ(count_of_gpu("gres/gpu:a100:4"), 4);
  EXPECT_EQ(count_of_gpu("gres/gpu=4"), 4);
  EXPECT_EQ(count_of_gpu("gres:lustre:4"), std::nullopt);
  EXPECT_EQ(count_of_gpu(""), std::nullopt);
  // Slurm reads units, and of several numbers takes the last: each that is not plain is more than any limit.
  EXPECT_EQ(count_of_gpu("gres:gpu:1,gres:gpu:900"), 900);
  EXPECT_EQ(count_of_gpu("gres:gpu:900,gres:gpu:1"), 900);
  for (const char* tres : {"gres:gpu:1K", "gres:gpu:1KiB", "gres:gpu:-1", "gres:gpu", "gres:gpu:99999999999999999999"})
    EXPECT_GT(count_of_gpu(tres).value_or(0), int64_t{1} << 30) << tres;
}

TEST(GpuShare, stays_what_it_was_at_submission) {
  Change cpus;
  cpus.cpus = true;
  Change memory;
  memory.memory = true;
  EXPECT_TRUE(check_change(site_of(""), cpus) && check_change(site_of(""), memory));
  const SiteConfig limited = site_of(kBoth);
  for (const Change& change : {cpus, memory}) {
    const Status got = check_change(limited, change);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Errc::kDenied);
  }
}

}  // namespace
}  // namespace dl
