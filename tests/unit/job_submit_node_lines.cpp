// SPDX-License-Identifier: Apache-2.0
// What slurm.conf says of the GPUs that exist, and the jobs that are refused because of it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "slurm-plugin/job_submit/node_lines.h"
#include "slurm-plugin/job_submit/node_lines_cache.h"
#include "slurm-plugin/job_submit/room.h"

namespace dl {
namespace {

using Files = std::map<std::string, std::string>;

NodeLines lines_of(const Files& files) {
  return read_node_lines("/etc/slurm/slurm.conf", [&](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return std::nullopt;
    return found->second;
  });
}
NodeLines lines_of(const std::string& text) {
  return lines_of(Files{{"/etc/slurm/slurm.conf", text}});
}
// All learners with one GPU of any type that fit; -1: not known.
int64_t gpus_of(const std::string& text) {
  return most_learners(lines_of(text), 1, "");
}

TEST(NodeLines, AreReadAsSlurmReadsThem) {
  const std::pair<const char*, int64_t> cases[] = {
      {"NodeName=n[1-3] Gres=gpu:2", 6},
      {"nodename=n1 GRES=GPU:2", 2},
      {"  NodeName = n1  Gres = gpu:2  State = UNKNOWN", 2},
      {"NodeName=n[1-2],m[01-10/],x Gres=gpu:1", -1},
      {"NodeName=n[1-2],m[01-10],x Gres=gpu:1", 13},
      {"NodeName=n1 CPUs=4\nNodeName=n2 Gres=gpu:a100:4 # Gres=gpu:8", 4},
      {"# NodeName=n1 Gres=gpu:8\nNodeName=n2 Gres=gpu:1", 1},
      {"NodeName=n1 \\\n  CPUs=4 \\\n  Gres=gpu:4\nNodeName=n2", 4},
      {"NodeName=n1 \\ # a comment\n Gres=gpu:4", 4},
      {"NodeName=n1 Gres=gpu:4\r\nNodeName=n2 Gres=gpu:1\r\n", 5},
      {"NodeName=n1 Gres=\"gpu:a100:2,gpu:v100:1\" Feature=\"x y\"", 3},
      {"NodeName=n1 Gres=gpu", 1},
      {"NodeName=n1 Gres=gpu:a100", 1},
      {"NodeName=n1 Gres=gpu:2080ti:2", 2},
      {"NodeName=n1 Gres=gpu:3g.20gb:2,shard:8,lustre:no_consume:4G", 2},
      {"NodeName=n1 Gres=gpu:0\nNodeName=n2 Gres=gpu:1", 1},
      {"NodeName=DEFAULT Gres=gpu:4\nNodeName=n[1-2]\nNodeName=n3 Gres=gpu:1\nNodeName=default CPUs=2\nNodeName=n4",
       13},
      {"NodeName=DEFAULT Gres=gpu:4\nNodeName=n1\nNodeName=DEFAULT Gres=\"\"\nNodeName=n2", 4},
      {"NodeName=n1 Gres=gpu:4 State=FUTURE\nNodeName=n2 Gres=gpu:4 State=DOWN", 8},
      {"NodeName=n1 Gres=gpu:4\nPartitionName=p Nodes=n1\nNodeSet=x Nodes=n1", 4},
      {"ClusterName=c MaxNodeCount=3\nNodeName=n1 Gres=gpu:4", 4},
      // Nothing is known.
      {"", -1},
      {"ClusterName=c", -1},
      {"NodeName=n[1-3] CPUs=2", -1},
      {"NodeName=n1 Gres=gpu:4\nMaxNodeCount=10", -1},
      {"NodeName=n1 Gres=gpu:4\nnodefeaturesplugins = helpers", -1},
      {"NodeName=n1 Gres=gpu:4\nNodeName+=n2", -1},
      {"NodeName=n1 Gres+=gpu:4", -1},
      {"NodeName=n1 Gres=gpu:4 odd", -1},
      {"NodeName=n1 Gres=\"gpu:4", -1},
      {"NodeName=n1 Gres=gpu:4k", -1},
      {"NodeName=n1 Gres=gpu:a100:4(S:0-1)", -1},
      {"NodeName=n1 Gres=gpu:a100:no_consume:4", -1},
      {"NodeName=n1 Gres=gpu:no_consume:4", -1},
      {"NodeName=n1 Gres=gpu=4", -1},
      {"NodeName=n1 Gres=gpu::4", 4},
      {"NodeName=n[1-2 Gres=gpu:4", -1},
      {"NodeName=", -1},
      {"NodeName", -1},
      {"NodeName=n[1-999999] Gres=gpu:1", -1},
      {"Include nodes.conf\nNodeName=n1 Gres=gpu:4", -1},
      {"Include %c.conf\nNodeName=n1 Gres=gpu:4", -1},
  };
  for (const auto& [text, gpus] : cases) EXPECT_EQ(gpus_of(text), gpus) << text;
}

TEST(NodeLines, FollowIncludes) {
  const Files files = {
      {"/etc/slurm/slurm.conf",
       "NodeName=DEFAULT Gres=gpu:2\nINCLUDE nodes.conf # here\nInclude x/a.conf\nIncluded=1\n"},
      {"/etc/slurm/nodes.conf", "NodeName=n1\n  Include not.conf\nInclude more.conf\ninclude /x/last.conf"},
      {"/etc/slurm/more.conf", "NodeName=n2"},
      {"/etc/slurm/x/a.conf", "NodeName=n3"},
      {"/x/last.conf", "NodeName=n4 Gres=gpu:8"}};
  EXPECT_EQ(most_learners(lines_of(files), 1, ""), 14);
  Files gone = files;
  gone.erase("/x/last.conf");
  EXPECT_EQ(most_learners(lines_of(gone), 1, ""), -1);
  EXPECT_EQ(most_learners(lines_of({{"/etc/slurm/slurm.conf", "NodeName=n1 Gres=gpu:1\nInclude slurm.conf"}}), 1, ""),
            -1);
  // Slurm 22.05 looks in the folder of the file that has the line, newer versions in that of slurm.conf.
  Files both = files;
  both["/etc/slurm/x/a.conf"] = "Include more.conf";
  both["/etc/slurm/x/more.conf"] = "NodeName=n3";
  EXPECT_EQ(most_learners(lines_of(both), 1, ""), -1);
}

TEST(NodeLines, ALearnerIsOnOneNodeAndHasGpusOfItsType) {
  const NodeLines lines =
      lines_of("NodeName=a[1-3] Gres=gpu:a100:4\nNodeName=b[1-2] Gres=gpu:v100:2\nNodeName=c1 Gres=gpu:3\nNodeName=d1");
  EXPECT_EQ(most_learners(lines, 1, ""), 12 + 4 + 3);
  EXPECT_EQ(most_learners(lines, 3, ""), 3 + 1);
  EXPECT_EQ(most_learners(lines, 4, ""), 3);
  EXPECT_EQ(most_learners(lines, 5, ""), 0);
  EXPECT_EQ(largest_node(lines, ""), 4);
  EXPECT_EQ(most_learners(lines, 2, "v100"), 2 + 1) << "c1 may have v100s by its gres.conf";
  EXPECT_EQ(largest_node(lines, "v100"), 3);
  EXPECT_EQ(most_learners(lines_of("NodeName=a1 Gres=gpu:a100:4"), 1, "h100"), -1) << "Slurm's to refuse";
}

JobRequest wants(int learners, int gpus, const char* type = "") {
  JobRequest request;
  request.learners = LearnerRange{learners, learners};
  request.gpus = GpuRequest{type, gpus};
  return request;
}

TEST(NodeLines, RefuseAJobThatNeverStarts) {
  const NodeLines lines = lines_of("NodeName=n[1-3] Gres=gpu:a100:2");
  EXPECT_TRUE(check_room(wants(6, 1), lines));
  EXPECT_TRUE(check_room(wants(7, 0), lines));
  EXPECT_TRUE(check_room(wants(7, 1, "h100"), lines));
  EXPECT_TRUE(check_room(JobRequest(), lines));
  EXPECT_TRUE(check_room(wants(7, 1), NodeLines())) << "not known";
  EXPECT_EQ(check_room(wants(7, 1), lines).error().text,
            "--dl-learners=7: all nodes together have GPUs for 6 learners with 1 GPU each (NodeName in slurm.conf), so "
            "the job would never start; allowed: at most 6");
  EXPECT_EQ(check_room(wants(1, 3, "a100"), lines).error().text,
            "--dl-gpus=a100:3: no node has as many GPUs, the largest has 2 (NodeName in slurm.conf), so the job would "
            "never start; allowed: at most 2 for each learner");
}

// Whatever the text is, it is read to its end, and numbers stay in their bounds.
TEST(NodeLines, AnyTextIsRead) {
  std::mt19937 random(7);
  const std::string words[] = {"NodeName", "=",      "n[1-3]",  " ", "Gres", "gpu:2", ",", "\\", "\n", "\"", "#",
                               "Include ", "a.conf", "DEFAULT", ":", "gpu",  "99999", "[", "]",  "-",  "+=", "\r"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint32_t n = random() % 24; n > 0; --n) text += words[random() % std::size(words)];
    const NodeLines lines = lines_of(Files{{"/etc/slurm/slurm.conf", text}, {"/etc/slurm/a.conf", text}});
    EXPECT_GE(most_learners(lines, 1, ""), -1) << text;
    EXPECT_TRUE(!lines.complete || !lines.kinds.empty()) << text;
  }
}

class NodeLinesCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-node-lines-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // As `rsync -a` does it: the file keeps its old time.
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    const utimbuf times{1000, 1000};
    ASSERT_EQ(::utime((folder_ + "/" + name).c_str(), &times), 0);
  }
  std::string folder_;
  NodeLinesCache::Clock::time_point now_ = NodeLinesCache::Clock::now();
};

TEST_F(NodeLinesCacheTest, FollowsItsFilesOnceSlurmHasReadThem) {
  using std::chrono::seconds;
  const int64_t before_s = std::time(nullptr) - 1, after_s = before_s + 3600;
  write("slurm.conf", "NodeName=n1 Gres=gpu:1\nInclude more.conf\n");
  write("more.conf", "NodeName=n2 Gres=gpu:1\n");
  std::filesystem::create_symlink("slurm.conf", folder_ + "/link");
  NodeLinesCache cache(folder_ + "/link");
  EXPECT_FALSE(cache.get(before_s, now_)->complete) << "not in force yet";
  EXPECT_EQ(most_learners(*cache.get(after_s, now_), 1, ""), 2);
  write("more.conf", "NodeName=n2 Gres=gpu:4\n");
  EXPECT_EQ(most_learners(*cache.get(after_s, now_), 1, ""), 2) << "looked at once a second";
  EXPECT_EQ(most_learners(*cache.get(after_s, now_ + seconds(2)), 1, ""), 5);
  std::filesystem::remove(folder_ + "/more.conf");
  EXPECT_FALSE(cache.get(after_s, now_ + seconds(4))->complete);
  write("more.conf", "NodeName=n2 Gres=gpu:2\n");
  EXPECT_EQ(most_learners(*cache.get(after_s, now_ + seconds(6)), 1, ""), 3);
}

TEST_F(NodeLinesCacheTest, NothingIsKnownWithoutAFileAndNothingBlocks) {
  EXPECT_FALSE(NodeLinesCache("").get(1, now_)->complete);
  EXPECT_FALSE(NodeLinesCache(folder_ + "/slurm.conf").get(1, now_)->complete);
  ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  EXPECT_FALSE(NodeLinesCache(folder_ + "/fifo").get(INT64_MAX, now_)->complete);
}

}  // namespace
}  // namespace dl
