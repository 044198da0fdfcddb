// SPDX-License-Identifier: Apache-2.0
// What the kernel's texts say of the use of CPUs, memory and storage, also where they are cut off or hostile; and how
// often they are read.
#include "launcher/agent/use_texts.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "launcher/agent/gpu_sampler.h"

namespace dl::agent {
namespace {

TEST(UseTexts, CpuTimeOfAProcessAndItsChildrenWhateverItsName) {
  const std::string rest = " S 1 2 3 4 5 6 7 8 9 10 100 20 3000 400 20 0 1 0 12345 1000 200\n";
  EXPECT_EQ(cpu_ticks("42 (python3)" + rest), 3520);
  EXPECT_EQ(cpu_ticks("42 (a) R 9 9) 1 (b)" + rest), 3520) << "the name may have brackets and blanks";
  EXPECT_EQ(cpu_ticks("42 (new\nline)" + rest), 3520);
  for (const char* bad : {"", "42", "42 (x", "42 (x)", "42 (x) S 1 2", "42 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13",
                          "42 (x) S 1 2 3 4 5 6 7 8 9 10 -5 12 13 14", "42 (x) S 1 2 3 4 5 6 7 8 9 10 a b c d"})
    EXPECT_EQ(cpu_ticks(bad), kUnmeasured) << bad;
  EXPECT_EQ(cpu_ticks("1 (x) S 1 2 3 4 5 6 7 8 9 10 9223372036854775807 9223372036854775807 1 1"), kUnmeasured);
}

TEST(UseTexts, MemoryWithoutPagesOfFiles) {
  const std::string status = "Name:\tpython3\nVmRSS:\t  900000 kB\nRssAnon:\t  204800 kB\nRssFile:\t 600000 kB\n";
  EXPECT_EQ(own_memory(status), 200LL << 20);
  EXPECT_EQ(own_memory(status + "RssShmem:\t    1024 kB\n"), 201LL << 20);
  EXPECT_EQ(own_memory("Name:\tRssAnon: 5 kB\nVmRSS: 900 kB\n"), kUnmeasured) << "a kernel before 4.5";
  EXPECT_EQ(own_memory("RssAnon:\t-5 kB\n"), kUnmeasured);
  EXPECT_EQ(own_memory("RssAnon:"), kUnmeasured);
  EXPECT_GT(own_memory("RssAnon: 999999999999999999 kB\n"), 0) << "no overflow";
  EXPECT_EQ(own_memory(""), kUnmeasured);
}

TEST(UseTexts, Storage) {
  const StorageUse use = storage_use(
      "rchar: 5\nwchar: 6\nsyscr: 7\nsyscw: 8\nread_bytes: 4096\nwrite_bytes: 8192\n"
      "cancelled_write_bytes: 0\n");
  EXPECT_EQ(use.read, 4096);
  EXPECT_EQ(use.written, 8192);
  EXPECT_EQ(storage_use("").read, kUnmeasured);
  EXPECT_EQ(storage_use("read_bytes: x\nwrite_bytes: 1").written, 1);
  EXPECT_EQ(storage_use("read_bytes: x\nwrite_bytes: 1").read, kUnmeasured);
}

TEST(UseTexts, TheControlGroupOfTheJobStep) {
  const auto of = [](const std::string& path) { return step_memory_file({path, "/elsewhere/memory.events"}); };
  EXPECT_EQ(of("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_3/memory.events"),
            "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/memory.stat");
  EXPECT_EQ(of("/sys/fs/cgroup/memory/slurm/uid_0/job_7/step_batch/task_0/memory.oom_control"),
            "/sys/fs/cgroup/memory/slurm/uid_0/job_7/step_batch/memory.stat");
  EXPECT_EQ(of("/sys/fs/cgroup/memory/slurm/uid_0/job_7/step_0/memory.oom_control"),
            "/sys/fs/cgroup/memory/slurm/uid_0/job_7/step_0/memory.stat");
  EXPECT_EQ(of("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.events"), "") << "others may be there";
  EXPECT_EQ(of("/sys/fs/cgroup/step_0"), "");
  EXPECT_EQ(of(""), "");
}

TEST(UseTexts, MemoryOfAControlGroupWithoutThePageCache) {
  EXPECT_EQ(group_memory("anon 1000\nfile 900000\nkernel 5\nshmem 200\n"), 1200) << "version 2";
  EXPECT_EQ(group_memory("anon_thp 7\nanon 1000\n"), 1000);
  EXPECT_EQ(group_memory("cache 900000\nrss 10\ntotal_cache 900000\ntotal_rss 3000\n"), 3000) << "version 1";
  EXPECT_EQ(group_memory("total_rss 3000\ntotal_shmem 500\n"), 3500);
  EXPECT_EQ(group_memory("cache 5\n"), kUnmeasured);
  EXPECT_EQ(group_memory("anon\n"), kUnmeasured);
  EXPECT_EQ(group_memory(std::string("anon \0 5", 8)), kUnmeasured);
  EXPECT_EQ(group_memory(""), kUnmeasured);
}

TEST(UseTexts, LooksComeSoonAtFirstAndSeldomWhereTheyAreDear) {
  EXPECT_EQ(next_wait_ms(0, 10'000, 0), 1000);
  EXPECT_EQ(next_wait_ms(1000, 10'000, 300), 2000);
  EXPECT_EQ(next_wait_ms(8000, 10'000, 300), 10'000);
  EXPECT_EQ(next_wait_ms(10'000, 10'000, 10'000), 10'000) << "10 ms of each 10 s: a thousandth";
  EXPECT_EQ(next_wait_ms(10'000, 10'000, 40'000), 40'000);
  EXPECT_EQ(next_wait_ms(1000, 10'000, 5000), 5000);
  EXPECT_EQ(next_wait_ms(300'000, 10'000, 0), 10'000) << "it was a busy moment";
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(next_wait_ms(kMost, 10'000, kMost), 300'000);
  EXPECT_EQ(next_wait_ms(0, 500, -5), 500);
}

TEST(GpuLooks, SamplesOfTheDriverAreWeightedByTheirTime) {
  EXPECT_DOUBLE_EQ(weighted_use({{2000, 100}, {1000, 0}, {4000, 50}}, 0), 50) << "in any order";
  EXPECT_DOUBLE_EQ(weighted_use({{1000, 100}, {4000, 20}}, 2000), 20) << "the first is of a time that was told";
  EXPECT_LT(weighted_use({}, 0), 0);
  EXPECT_LT(weighted_use({{1000, 50}}, 1000), 0) << "nothing new";
  EXPECT_LT(weighted_use({{1000, 5'000'000}}, 0), 0) << "no percentage";
}

TEST(GpuLooks, AreAddedUpUntilTheyAreTold) {
  protocol::GpuUse use{-1};
  protocol::GpuUse look{-1, 1000, 2, 500, 1 << 20, 300'000, 300};
  add_look(look, &use);
  EXPECT_EQ(use.percent, -1);
  EXPECT_EQ(use.busy_ms, 500);
  look.percent = 40;
  look.memory = 1 << 10;
  add_look(look, &use);
  EXPECT_EQ(use.percent, 40);
  EXPECT_EQ(use.over_ms, 2000);
  EXPECT_EQ(use.busy_ms, 1000);
  EXPECT_EQ(use.gpus, 2);
  EXPECT_EQ(use.memory, 1 << 20) << "the most";
  EXPECT_EQ(use.millijoules, 600);
  EXPECT_EQ(use.sm_ms, -1) << "not measured";
  look.millijoules = -1;
  add_look(look, &use);
  EXPECT_EQ(use.millijoules, -1) << "a part is not known";
}

}  // namespace
}  // namespace dl::agent
