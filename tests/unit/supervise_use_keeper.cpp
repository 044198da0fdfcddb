// SPDX-License-Identifier: Apache-2.0
// What learners use, as dlrun writes it beside the loop and tells it.
#include "launcher/supervise/use_keeper.h"

#include <stdlib.h>

#include <filesystem>
#include <map>

#include "common/base/atomic_file.h"
#include "common/contract/progress_page.h"
#include "supervise_loop.h"
#include "supervise_plan.h"

namespace dl::supervise {
namespace {

constexpr int64_t kUnix = 1'789'000'000'000;

class UseKeeperTest : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    plan_ = plan_of(1);
    plan_.cpus_per_learner = 2;
  }
  void TearDown() override {
    LoopTest::TearDown();
    std::filesystem::remove_all(folder_);
  }
  std::string path(int attempt) const { return folder_ + "/" + std::to_string(attempt); }
  // By name, of the group use.
  std::map<std::string, std::vector<metrics::Point>> points(int attempt) const {
    std::map<std::string, std::vector<metrics::Point>> found;
    const auto text = read_small_file(path(attempt), 1 << 20);
    const auto file = metrics::parse_series(text ? *text : "");
    if (!file) return found;
    for (const metrics::Series& series : file->series)
      if (series.group == "use") found[series.name] = series.points;
    return found;
  }
  static protocol::Use use(int64_t cpu_ms) {
    protocol::Use use;
    use.over_ms = 10'000;
    use.cpu_ms = cpu_ms;
    use.memory = 1 << 20;
    use.memory_of = 1;
    return use;
  }
  std::string folder_ = testing::TempDir() + "use-XXXXXX";
  plan::LaunchPlan plan_;
};

TEST_F(UseKeeperTest, PointsAreWrittenEachTenSecondsWithTheTrainStep) {
  UseKeeper keeper(&loop_);
  keeper.begin_attempt(plan_, path(1), 1000);
  keeper.all_run(1000);
  keeper.look(12'000, kUnix);
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(keeper.idle());
  EXPECT_FALSE(std::filesystem::exists(path(1))) << "nothing was reported";
  protocol::Progress progress;
  progress.state = ProgressPage::kTraining;
  progress.step = 40;
  keeper.progressed(0, progress, 12'500);
  keeper.used(0, use(5000), 13'000);
  keeper.look(13'000, kUnix + 1000);
  keeper.look(14'000, kUnix + 2000);
  keeper.used(0, use(20'000), 23'000);
  keeper.look(24'000, kUnix + 12'000);
  EXPECT_FALSE(keeper.idle()) << "they are being written";
  uv_run(&loop_, UV_RUN_DEFAULT);
  const auto found = points(1);
  ASSERT_EQ(found.count("cpus_used"), 1U);
  const std::vector<metrics::Point>& cpus = found.at("cpus_used");
  ASSERT_EQ(cpus.size(), 2U);
  EXPECT_EQ(cpus[0].time_ms, kUnix + 1000);
  EXPECT_EQ(cpus[0].step, 40);
  EXPECT_DOUBLE_EQ(cpus[0].value, 0.5);
  EXPECT_DOUBLE_EQ(cpus[1].value, 2);
  EXPECT_EQ(found.count("gpu_used_percent"), 0U);
  EXPECT_EQ(found.count("read_bytes_per_s"), 0U) << "not measured";
}

TEST_F(UseKeeperTest, EachAttemptHasAFileAndTheSumIsOfAll) {
  UseKeeper keeper(&loop_);
  EXPECT_FALSE(keeper.so_far(0)) << "nothing has run";
  for (const int attempt : {1, 2}) {
    const int64_t begin = attempt * 100'000;
    keeper.begin_attempt(plan_, path(attempt), begin);
    EXPECT_EQ(keeper.so_far(begin).has_value(), attempt == 2);
    keeper.all_run(begin);
    keeper.used(0, use(attempt * 10'000), begin + 10'000);
    keeper.look(begin + 10'000, kUnix);
    bool told = false;
    ASSERT_TRUE(keeper.so_far(begin + 8000, &told));
    EXPECT_EQ(told, attempt == 2) << "8 s are too short to be told of";
    keeper.ended(0, begin + 10'000);
    keeper.end_attempt(begin + 10'000);
  }
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(points(1).count("cpus_used"), 1U);
  EXPECT_EQ(points(2).count("cpus_used"), 1U);
  const auto use = keeper.so_far(300'000);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->text, "used 1.5 of 2 CPUs, 1 MiB");
  EXPECT_DOUBLE_EQ(use->numbers.at("cpu_seconds"), 30);
  EXPECT_DOUBLE_EQ(use->numbers.at("training_s"), 20);
  EXPECT_DOUBLE_EQ(use->numbers.at("memory_bytes"), 1 << 20);
}

TEST_F(UseKeeperTest, AFileThatCannotBeWrittenHoldsUpNothing) {
  UseKeeper keeper(&loop_);
  keeper.begin_attempt(plan_, folder_ + "/none/use.series", 0);
  keeper.all_run(0);
  for (int i = 1; i < 4; ++i) {
    keeper.used(0, use(5000), i * 10'000);
    keeper.look(i * 10'000, kUnix);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_TRUE(keeper.idle());
  }
  EXPECT_EQ(keeper.so_far(30'000)->text, "used 0.5 of 2 CPUs, 1 MiB");
}

TEST(MemoryAsked, ComesFromSlurmsVariables) {
  plan::LaunchPlan plan = plan_of(4);
  plan.under_slurm = true;
  plan.gpus_per_learner = 2;
  plan.cpus_per_learner = 8;
  std::map<std::string, std::string> variables;
  const auto asked = [&] {
    return memory_asked(plan, [&](const char* name) { return variables[name]; }).value_or(-1) / (1 << 30);
  };
  EXPECT_LT(asked(), 0);
  variables = {{"SLURM_MEM_PER_CPU", "1024"}};
  EXPECT_EQ(asked(), 32);
  variables["SLURM_MEM_PER_GPU"] = "8192";
  EXPECT_EQ(asked(), 64);
  variables["SLURM_MEM_PER_NODE"] = "2048";
  EXPECT_EQ(asked(), 8);
  for (const char* none : {"0", "-1", "x", "", "99999999999999999999"}) {
    variables = {{"SLURM_MEM_PER_NODE", none}};
    EXPECT_LT(asked(), 0) << none;
  }
  variables = {{"SLURM_MEM_PER_NODE", "2048"}};
  plan.under_slurm = false;
  EXPECT_LT(asked(), 0) << "left over in the environment";
}

}  // namespace
}  // namespace dl::supervise
