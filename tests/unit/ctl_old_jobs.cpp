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
  EXPECT_EQ(reason_to_keep(ended(kNow - 60'000), {}, rules, kNow), "it ended 1m00s ago");
  TreeFacts tree;
  tree.newest_s = kNow / 1000 - 60;
  EXPECT_EQ(reason_to_keep(ended(1000), tree, rules, kNow), "it ended 1m00s ago") << "something is still written";
  tree = {};
  tree.checkpoint = true;
  EXPECT_EQ(reason_to_keep(ended(1000), tree, rules, kNow), "it holds checkpoints");
  tree = {};
  tree.foreign = true;
  EXPECT_EQ(reason_to_keep(ended(1000), tree, rules, kNow), "not all in it is yours");
  tree = {};
  tree.results = "model.pt";
  EXPECT_EQ(reason_to_keep(ended(1000), tree, rules, kNow), "results/ holds model.pt");
  EXPECT_EQ(reason_to_keep(ended(1000), tree, {3600, true}, kNow), "");
  OldJob runs = ended(1000);
  runs.ended = false;
  runs.still = "it is paused";
  EXPECT_EQ(reason_to_keep(runs, {}, rules, kNow), "it is paused");
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
