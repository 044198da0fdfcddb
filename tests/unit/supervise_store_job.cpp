// SPDX-License-Identifier: Apache-2.0
// The job that stores results where the time did not suffice: when there is one, its options, and what its script does.
#include "launcher/supervise/store_job.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/json/json.h"
#include "common/process/child_process.h"

namespace dl::supervise {
namespace {

plan::LaunchPlan plan_with_results() {
  plan::LaunchPlan plan;
  plan.job_id = "12";
  plan.under_slurm = true;
  plan.results.emplace();
  plan.results->to = "lab:it's 100%/12";
  return plan;
}

slurm_cli::JobText job_text() {
  slurm_cli::JobText job;
  job.values = {{"JobId", "12"}, {"Restarts", "1"}, {"Account", "physics"}, {"Partition", "gpu"}};
  return job;
}

TEST(StoreJob, IsForWhatWasTooLateAndWhatNoNextAttemptStores) {
  plan::LaunchPlan plan = plan_with_results();
  StoreOutcome late;
  late.late = true;
  EXPECT_TRUE(is_handed_over(plan, AfterEnd::kOver, late));
  EXPECT_TRUE(is_handed_over(plan, AfterEnd::kHeld, late));
  EXPECT_FALSE(is_handed_over(plan, AfterEnd::kQueued, late));
  StoreOutcome refused;
  refused.text = "the place is full";
  EXPECT_FALSE(is_handed_over(plan, AfterEnd::kOver, refused)) << "it would be for another job, too";
  plan.under_slurm = false;
  EXPECT_FALSE(is_handed_over(plan, AfterEnd::kOver, late));
}

TEST(StoreJob, TakesTheAccountButNeitherThePartitionNorGpus) {
  const std::vector<std::string> options = store_job_options(job_text(), "dl-store-12", record::JobDir("/w/50%/dl-12"));
  const auto has = [&](const char* option) { return std::count(options.begin(), options.end(), option) == 1; };
  EXPECT_TRUE(has("--job-name=dl-store-12") && has("--account=physics") && has("--gres=none") && has("--ntasks=1"));
  EXPECT_TRUE(has("--output=/w/50%%/dl-12/data/store-%j.out"));
  EXPECT_TRUE(has("--chdir=/w/50%/dl-12"));
  for (const std::string& option : options) EXPECT_EQ(option.find("--partition"), std::string::npos);
  EXPECT_EQ(store_job_name("12_3", 1), "dl-store-12_3");
  EXPECT_EQ(store_job_name("12", 2), "dl-store-12.2");
}

TEST(StoreJob, IsFoundInTheRecordByItsNumberAlone) {
  EXPECT_EQ(handed_to(R"({"done":false,"job":"45"})"), "45");
  for (const char* text : {R"({"done":false})", R"({"job":"--help"})", R"({"job":45})", "[]", ""})
    EXPECT_EQ(handed_to(text), "");
}

// The script runs with a squeue that says one line of `said` after the other, and ends where there is none.
class StoreScript : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_), nullptr);
    std::filesystem::create_directories(dir().data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  record::JobDir dir() const { return record::JobDir(std::string(folder_) + "/it's"); }
  bool stores(const std::vector<std::string>& said, int status = 0) {
    const std::string words = std::string(folder_) + "/words";
    std::filesystem::remove(words);
    plan::LaunchPlan plan = plan_with_results();
    plan.data_program = std::string(folder_) + "/dl-data";
    std::ofstream(plan.data_program) << "#!/bin/sh\necho \"$*\" >" << words << "\nexit " << status << "\n";
    ::chmod(plan.data_program.c_str(), 0755);
    std::ofstream lines(std::string(folder_) + "/said");
    for (const std::string& line : said) lines << line << "\n";
    lines.close();
    const std::string shell = "cd " + std::string(folder_) +
                              "\nsqueue() { [ \"$4\" = --Format=State:20,RestartCnt:12 ] && head -n 1 said; sed -i 1d "
                              "said; }\nsleep() { [ -s said ] || exit 9; }\n" +
                              store_job_script(job_text(), plan, dir(), 2);
    const auto done = run_command({"sh", "-c", shell});
    EXPECT_TRUE(done && done->err.empty()) << (done ? done->err : done.error().text);
    std::ifstream file(words);
    std::getline(file, words_);
    return !words_.empty();
  }
  char folder_[32] = "/tmp/dl-store-job-XXXXXX";
  std::string words_;
};

TEST_F(StoreScript, BeginsOnceTheJobHasStopped) {
  EXPECT_FALSE(stores({"RUNNING 1", "COMPLETING 1"}));
  EXPECT_FALSE(stores({"slurm_load_jobs error: Unable to contact slurm controller (connect failure)"}));
  for (const char* state : {"COMPLETED 1", "TIMEOUT 1", "PENDING 2", "FAILED 1", "NODE_FAIL 1"})
    EXPECT_TRUE(stores({"RUNNING 1", "COMPLETING 2", state})) << state;
  EXPECT_TRUE(stores({"slurm_load_jobs error: Invalid job id specified"}));
  EXPECT_NE(words_.find("--to lab:it's 100%/12"), std::string::npos) << words_;
  EXPECT_EQ(words_.find("--deadline"), std::string::npos);
}

TEST_F(StoreScript, DoesNothingWhereTheJobRunsAgain) {
  EXPECT_FALSE(stores({"RUNNING 1", "RUNNING 2", "COMPLETED 2"}));
}

TEST_F(StoreScript, RecordsThatAllIsStoredOnlyWhenItIs) {
  EXPECT_TRUE(stores({"COMPLETED 1"}, 75));
  EXPECT_FALSE(std::filesystem::exists(dir().stored()));
  EXPECT_TRUE(stores({"COMPLETED 1"}));
  std::ifstream file(dir().stored());
  const Json json = Json::parse(std::string{std::istreambuf_iterator<char>(file), {}});
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.value("to", std::string()), "lab:it's 100%/12");
  EXPECT_EQ(json.value("done", false), true);
  EXPECT_EQ(json.value("attempt", 0), 2);
  EXPECT_GT(json.value("time_ms", int64_t{0}), 1'700'000'000'000);
}

}  // namespace
}  // namespace dl::supervise
