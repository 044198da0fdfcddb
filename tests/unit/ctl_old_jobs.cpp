// SPDX-License-Identifier: Apache-2.0
// What `dlctl clean` may remove, and that it follows no link.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/ctl/old_jobs.h"

namespace dl::ctl {
namespace {

namespace fs = std::filesystem;

OldJob ended(int64_t ended_ms) {
  OldJob job;
  job.ended = true;
  job.ended_ms = ended_ms;
  return job;
}

TEST(OldJobs, OnlyWhatIsSafeGoes) {
  constexpr int64_t kNow = 1000'000'000;
  const CleanRules rules{3600, false};
  EXPECT_EQ(reason_to_keep(ended(1000), {}, rules, kNow), "");
  EXPECT_EQ(reason_to_keep(ended(kNow - 60'000), {}, rules, kNow), "it ended 1m00s ago, and --older-than is 1h");
  TreeFacts tree;
  tree.newest_s = kNow / 1000 - 60;
  EXPECT_EQ(reason_to_keep(ended(1000), tree, rules, kNow), "it ended 1m00s ago, and --older-than is 1h")
      << "something is still written";
  tree = {};
  tree.checkpoint = true;
  EXPECT_EQ(reason_to_keep(ended(1000), tree, rules, kNow), "it holds checkpoints");
  tree = {};
  tree.foreign = true;
  EXPECT_EQ(reason_to_keep(ended(1000), tree, rules, kNow), "it holds files of other users");
  tree = {};
  tree.results = "model.pt";
  EXPECT_EQ(reason_to_keep(ended(1000), tree, rules, kNow), "results/ holds model.pt");
  EXPECT_EQ(reason_to_keep(ended(1000), tree, {3600, true}, kNow), "");
  OldJob runs = ended(1000);
  runs.ended = false;
  runs.still = "it is paused";
  EXPECT_EQ(reason_to_keep(runs, {}, rules, kNow), "it is paused");
}

slurm_cli::JobInfo in_queue(const std::string& id, const std::string& state, const std::string& dir = "") {
  slurm_cli::JobInfo info;
  info.job_id = id;
  info.state = state;
  if (!dir.empty()) info.comment = "dl:PROCESSING attempt=1 dir=" + dir + " reason=2 runs: 2 PROCESSING";
  return info;
}

TEST(OldJobs, WhatSlurmHasStays) {
  const QueuedJobs queued =
      queued_jobs({in_queue("12", "RUNNING", "/x/dl-12"), in_queue("13_[3-7]", "PENDING"), in_queue("14_2", "RUNNING"),
                   in_queue("15+0", "RUNNING"), in_queue("16", "PENDING", "/y/dl-mine")});
  EXPECT_EQ(still_queued("/x/dl-12", "", queued), "Slurm has it: RUNNING");
  EXPECT_EQ(still_queued("/y/dl-12", "", queued), "Slurm has a job of this number: RUNNING");
  // Further runs of a job: dl-12.2.
  EXPECT_EQ(still_queued("/x/dl-12.2", "12", queued), "Slurm has it: RUNNING");
  EXPECT_EQ(still_queued("/y/dl-12.31", "", queued), "Slurm has a job of this number: RUNNING");
  EXPECT_EQ(still_queued("/x/dl-14_2.3", "", queued), "Slurm has a job of this number: RUNNING");
  EXPECT_EQ(still_queued("/x/dl-13_5", "", queued), "elements of its array wait");
  EXPECT_EQ(still_queued("/x/dl-13_5.2", "", queued), "elements of its array wait");
  EXPECT_EQ(still_queued("/x/dl-15", "", queued), "Slurm has a job of this number: RUNNING");
  // A directory of the user's own choice: the comment names it, or its plan names the job.
  EXPECT_EQ(still_queued("/y/dl-mine", "16", queued), "Slurm has it: PENDING");
  EXPECT_EQ(still_queued("/y/dl-mine.2", "16", queued), "Slurm has it: PENDING");
  EXPECT_EQ(still_queued("/y/dl-other", "16", queued), "Slurm has a job of this number: PENDING");
  EXPECT_EQ(still_queued("/x/dl-local-20261121-040000-8", "16", queued), "Slurm has a job of this number: PENDING");
  const QueuedJobs over =
      queued_jobs({in_queue("12", "CANCELLED", "/x/dl-12"), in_queue("14_2", "COMPLETED"), in_queue("15+0", "FAILED")});
  EXPECT_EQ(still_queued("/x/dl-12", "12", over), "") << "Slurm knows it, but it has ended";
  EXPECT_EQ(over.known, (std::set<std::string>{"12", "14_2", "15"}));
  for (const char* gone : {"/x/dl-1", "/x/dl-122", "/x/dl-2.12", "/x/dl-12x", "/x/dl-14_3", "/x/dl-local-12", "/x/dl-"})
    EXPECT_EQ(still_queued(gone, "local-12", queued), "") << gone;
}

TEST(OldJobs, NothingGoesWhereSlurmCannotBeAsked) {
  OldJob job = ended(1000);
  job.unsure = why_unsure(job.view, std::nullopt);
  EXPECT_EQ(reason_to_keep(job, {}, {0, true}, 1000'000'000),
            "squeue is not installed here, so nobody knows whether its job has ended");
}

// Clusters may share a home: what Slurm does not know here may wait there.
TEST(OldJobs, OfAnotherClusterNothingGoes) {
  JobView view;
  view.job.id = view.plan.job_id = "12";
  view.plan.cluster = "alpha";
  view.history.resize(1);
  view.history[0].state = record::JobState::kHalted;
  EXPECT_EQ(why_unsure(view, "alpha"), "");
  EXPECT_EQ(why_unsure(view, "beta"), "it is a job of the cluster alpha, whose Slurm is not asked here");
  EXPECT_EQ(why_unsure(view, ""), "") << "it has one cluster that is not named";
  view.plan.cluster.clear();
  EXPECT_EQ(why_unsure(view, "beta"), "its plan.json does not say of which cluster it is, and it may wait there");
  view.job.accounted_state = "CANCELLED by 1000";
  EXPECT_EQ(why_unsure(view, "beta"), "");
  view.job.accounted_state.clear();
  view.history[0].state = record::JobState::kCompleted;
  EXPECT_EQ(why_unsure(view, "beta"), "");
  view.plan.job_id = "local-20261121-040000-8";
  EXPECT_EQ(why_unsure(view, std::nullopt), "") << "it was never in Slurm";
}

TEST(JobDirectory, IsOfTheJobThatItsPlanNames) {
  std::string folder = (fs::temp_directory_path() / "dl-named-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  fs::create_directories(folder + "/train-12.2");
  fs::create_directory_symlink(folder, folder + "/link");
  PlanFacts plan;
  plan.job_id = "12";
  plan.job_dir = folder + "/train-12";
  Job job;
  job.dir = record::JobDir(folder + "/train-12");
  EXPECT_TRUE(name_by_plan(plan, &job)) << "the same text";
  fs::create_directories(folder + "/train-12");
  job.dir = record::JobDir(folder + "/link/train-12");
  job.local = true;
  EXPECT_TRUE(name_by_plan(plan, &job)) << "the same folder";
  EXPECT_EQ(job.name(), "12");
  EXPECT_FALSE(job.local);
  job.dir = record::JobDir(folder + "/train-12.2");
  EXPECT_FALSE(name_by_plan(plan, &job)) << "a copy";
  plan.job_dir = folder + "/train-12.2";
  EXPECT_TRUE(name_by_plan(plan, &job));
  EXPECT_EQ(job.name(), "12.2");
  EXPECT_FALSE(is_same_folder("", ""));
  EXPECT_FALSE(is_same_folder(folder, folder + "/gone"));
  fs::remove_all(folder);
}

class FolderTree : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::temp_directory_path() / "dl-tree-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    fs::create_directories(folder_ + "/dl-1/logs/attempt-1");
    fs::create_directories(folder_ + "/dl-1/results");
    fs::create_directories(folder_ + "/elsewhere");
    std::ofstream(folder_ + "/dl-1/logs/attempt-1/learner-0.log") << std::string(10000, 'x');
    std::ofstream(folder_ + "/elsewhere/precious") << "kept";
    fs::create_symlink("attempt-1", folder_ + "/dl-1/logs/latest");
    fs::create_symlink(folder_ + "/elsewhere", folder_ + "/dl-1/link");
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_F(FolderTree, IsMeasuredAndJudged) {
  auto facts = look_at_tree(folder_ + "/dl-1");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->files, 1);
  EXPECT_GE(facts->bytes, 10000);
  EXPECT_FALSE(facts->checkpoint);
  EXPECT_EQ(facts->results, "");
  EXPECT_FALSE(facts->foreign);
  std::ofstream(folder_ + "/dl-1/results/model.pt") << "x";
  fs::create_directories(folder_ + "/dl-1/deep/ck");
  std::ofstream(folder_ + "/dl-1/deep/ck/LEASE") << "x";
  facts = look_at_tree(folder_ + "/dl-1");
  ASSERT_TRUE(facts);
  EXPECT_TRUE(facts->checkpoint);
  EXPECT_EQ(facts->results, "model.pt");
}

TEST_F(FolderTree, IsRemovedWithoutWhatLinksLeadTo) {
  ASSERT_TRUE(remove_tree(folder_ + "/dl-1"));
  EXPECT_FALSE(fs::exists(folder_ + "/dl-1"));
  EXPECT_TRUE(fs::exists(folder_ + "/elsewhere/precious"));
  fs::create_symlink(folder_ + "/elsewhere", folder_ + "/dl-2");
  EXPECT_FALSE(remove_tree(folder_ + "/dl-2")) << "a link in the place of a folder";
  EXPECT_FALSE(look_at_tree(folder_ + "/dl-2"));
  EXPECT_TRUE(fs::exists(folder_ + "/elsewhere/precious"));
}

TEST_F(FolderTree, OfAnotherUserIsForeign) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::lchown((folder_ + "/dl-1/logs/attempt-1/learner-0.log").c_str(), 65534, 65534), 0);
  EXPECT_TRUE(look_at_tree(folder_ + "/dl-1")->foreign);
}

}  // namespace
}  // namespace dl::ctl
