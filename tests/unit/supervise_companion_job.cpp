// SPDX-License-Identifier: Apache-2.0
// The job that dlrun submits to have more nodes: what it asks for, when it ends, and what is read of its state.
#include "launcher/supervise/companion_job.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/process/child_process.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::supervise {
namespace {

using Kind = CompanionState::Kind;

slurm_cli::JobText text_of(std::map<std::string, std::string, std::less<>> values) {
  slurm_cli::JobText text;
  text.values = std::move(values);
  return text;
}

plan::LaunchPlan two_on_a_node() {
  plan::LaunchPlan plan;
  plan.job_dir = "/home/ada/dl-12";
  plan.gpus_per_learner = 2;
  plan.gpu_type = "a100";
  plan.cpus_per_learner = 4;
  plan.nodes.resize(1);
  plan.nodes[0].learners = 2;
  return plan;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST(CompanionJob, AsksForNodesLikeThoseOfTheJobForAsLongAsItMayRun) {
  const auto job = text_of({{"JobId", "12"},
                            {"Partition", "gpu"},
                            {"Account", "nlp"},
                            {"QOS", "(null)"},
                            {"MinMemoryNode", "8G"},
                            {"MinMemoryCPU", "0"},
                            {"EndTime", "2026-11-29T03:00:00"}});
  const int64_t end_s = *slurm_cli::parse_slurm_time("2026-11-29T03:00:00");
  const auto options = companion_options(job, two_on_a_node(), 3, companion_name("12", 1), end_s - 600);
  for (const char* expected :
       {"--job-name=dl-companion-12", "--nodes=3", "--exclusive", "--no-requeue", "--partition=gpu", "--account=nlp",
        "--mem=8G", "--ntasks-per-node=2", "--cpus-per-task=4", "--gres=gpu:a100:4", "--time=10"})
    EXPECT_TRUE(has(options, expected)) << expected;
  for (const std::string& option : options) {
    EXPECT_NE(option.rfind("--qos", 0), 0U) << option;
    EXPECT_NE(option.rfind("--mem-per-cpu", 0), 0U) << option;
  }
  EXPECT_TRUE(has(companion_options(job, two_on_a_node(), 1, "x", end_s), "--time=1")) << "0 would be no limit";
  EXPECT_EQ(companion_name("12_3", 2), "dl-companion-12_3.2");
}

TEST(CompanionJob, ForNodesThatWereOfferedItIsInTheBorrowTier) {
  const auto job = text_of({{"JobId", "12"}, {"Partition", "gpu"}, {"QOS", "normal"}, {"Account", "nlp"}});
  const auto options = companion_options(job, two_on_a_node(), 1, "x", 0, OfferedNodes{"", "scavenge"});
  for (const char* expected : {"--dl-tier=borrow", "--comment=dl-companion=12", "--partition=gpu", "--account=nlp"})
    EXPECT_TRUE(has(options, expected)) << expected;
  EXPECT_FALSE(has(options, "--qos=normal")) << "job_submit_dl gives it that of the tier";
  EXPECT_FALSE(has(companion_options(job, two_on_a_node(), 1, "x", 0), "--dl-tier=borrow"));
}

// The script runs with a squeue that says this once, and then nothing that it could go on from. Whether it has looked
// once only.
class CompanionScript : public testing::Test {
 protected:
  bool ends_at(const std::string& said, int exit_status = 0) {
    const std::string script = companion_script(text_of({{"JobId", "12"}, {"Restarts", "1"}}));
    // Its loop waits by sleep, which here ends it with a status of its own.
    const std::string shell =
        "squeue() { echo '" + said + "'; return " + std::to_string(exit_status) + "; }\nsleep() { exit 9; }\n" + script;
    const auto done = run_command({"sh", "-c", shell});
    EXPECT_TRUE(done && (done->exit_code == 0 || done->exit_code == 9)) << (done ? done->err : done.error().text);
    return done && done->exit_code == 0;
  }
};

TEST_F(CompanionScript, EndsOnceTheJobDoesAndNotWhileSlurmctldIsSilent) {
  EXPECT_FALSE(ends_at("RUNNING             1           "));
  EXPECT_FALSE(ends_at("SUSPENDED           1"));
  EXPECT_FALSE(ends_at("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", 1));
  EXPECT_FALSE(ends_at("squeue: error: Socket timed out on send/recv operation", 1));
  EXPECT_TRUE(ends_at("RUNNING             2")) << "it was put back into the queue, and has started again";
  for (const char* state : {"PENDING 1", "COMPLETING 1", "COMPLETED 1", "CANCELLED 1", "FAILED 1", "NODE_FAIL 1"})
    EXPECT_TRUE(ends_at(state)) << state;
  EXPECT_TRUE(ends_at("slurm_load_jobs error: Invalid job id specified", 1));
}

TEST(CompanionJob, ItsStateTellsWhetherItsNodesMayBeUsed) {
  auto text = text_of({{"JobId", "13"}, {"JobState", "PENDING"}, {"NumTasks", "4"}});
  EXPECT_EQ(companion_state(text).kind, Kind::kWaits);
  text.values["JobState"] = "RUNNING";
  text.node_shares = {{"n[2-3]", "0-2,5", "gpu:a100:4(IDX:0-3)"}};
  const CompanionState runs = companion_state(text);
  ASSERT_EQ(runs.kind, Kind::kRuns);
  ASSERT_EQ(runs.nodes.size(), 2U);
  EXPECT_EQ(runs.nodes[1].name, "n3");
  EXPECT_EQ(runs.nodes[1].companion, "13");
  EXPECT_EQ(runs.nodes[1].gpus, 4);
  EXPECT_EQ(runs.nodes[1].cpus, 4);
  EXPECT_EQ(runs.nodes[1].tasks, 2);
  text.values["AdminComment"] = "dl:1 charge=borrowed yields=17@1790000000:1";
  const CompanionState claimed = companion_state(text);
  EXPECT_EQ(claimed.kind, Kind::kEnds);
  EXPECT_EQ(claimed.why, "its GPUs are taken back for job 17");
  EXPECT_EQ(claimed.deadline_ms, 1790000000000);
  text.values["JobState"] = "COMPLETING";
  EXPECT_EQ(companion_state(text).kind, Kind::kEnds) << "its learners have until KillWait";
  text.values["JobState"] = "TIMEOUT";
  EXPECT_EQ(companion_state(text).kind, Kind::kOver);
}

}  // namespace
}  // namespace dl::supervise
