// SPDX-License-Identifier: Apache-2.0
// The node-local level: what a killed learner, a lost node, damage and a full disk leave, and what the next start makes
// of it. Nodes are directories here, told apart by name.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "checkpoint/levels/levels.h"
#include "checkpoint/levels/partner.h"
#include "checkpoint/levels/save_history.h"
#include "checkpoint/transport/exchange.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWeights = 1200000;  // enough for every rank to write a part

// Three ranks: 0 and 1 on node a, 2 on node b.
class Cluster {
 public:
  explicit Cluster(bool partner = false) : partner_(partner) {
    fs::create_directory(shared());
    fs::create_directory(local());
  }
  std::string shared() const { return dir_.path() + "/shared"; }
  std::string local() const { return dir_.path() + "/local"; }
  static std::string node_of(int rank) { return rank == 2 ? "b" : "a"; }
  std::string node_directory(const std::string& node) const {
    for (const auto& entry : fs::directory_iterator(local()))
      if (fs::exists(entry.path() / node)) return (entry.path() / node).string();
    return "";
  }
  void lose_node(const std::string& node) { fs::remove_all(node_directory(node)); }

  // Every rank on a thread, with a group and the levels.
  void run(const std::function<void(int rank, Group&, Levels&)>& body, int ranks = 3, Io& io = posix_io()) {
    const std::string run_id = "run" + std::to_string(++runs_);
    run_ranks(ranks, [&](int rank) {
      auto group = make_file_group(posix_io(), shared(), run_id, rank, ranks, 20);
      LevelSettings settings{shared(), local(), node_of(rank), partner_, rank, 20};
      Levels levels(io, settings);
      ASSERT_TRUE(levels.open());
      group->start();
      body(rank, *group, levels);
    });
  }

  // A save of `step` as far as the local level (and the partner's); its parts come from an ordinary save elsewhere.
  CheckpointName save_on_nodes(int64_t step, bool flush = false, int generation = 1) {
    TempDir scratch;
    for (int i = 1; i < generation; ++i) EXPECT_TRUE(save_pattern(scratch.path(), i, posix_io(), 3, 10));
    run_ranks(3, [&](int rank) {
      auto context = open_context(settings_for(scratch.path(), rank, 3, "scratch"));
      ASSERT_TRUE(context);
      PatternState state(kWeights);
      state.fill(step);
      ASSERT_TRUE(state.enroll(**context));
      ASSERT_TRUE((*context)->save(step));
    });
    auto names = scan_checkpoints(posix_io(), scratch.path());
    auto made = load_manifest(posix_io(), scratch.path(), names->front());
    EXPECT_TRUE(made);
    const CheckpointName name = names->front();
    const std::string text = read_file(checkpoint_path(scratch.path(), name) + "/" + kManifestName);
    if (flush) fs::create_directory(attempt_path(shared(), name));
    run([&](int rank, Group& group, Levels& levels) {
      auto attempt = levels.begin(name);
      ASSERT_TRUE(attempt) << attempt.error().text;
      for (const StoredFile& file : stored_files(*made))
        if (file.writer == static_cast<uint32_t>(rank))
          fs::copy_file(checkpoint_path(scratch.path(), name) + "/" + file.name, *attempt + "/" + file.name);
      auto committed = levels.commit_local(group, name, rank == 0 ? Result<std::string>(text) : std::string());
      ASSERT_TRUE(committed) << committed.error().text;
      auto exchange = make_exchange(group, 20);
      ASSERT_TRUE(exchange);
      auto copied = levels.copy_to_partner(group, exchange->get(), *made);
      EXPECT_TRUE(copied) << copied.error().text;
      if (!flush) return;
      EXPECT_TRUE(agree_all(group, levels.copy_to_shared(*made)));
      if (rank == 0) {
        EXPECT_TRUE(publish(posix_io(), shared(), name, text));
      }
    });
    return name;
  }

  // What the next start does first. The note of rank 0.
  std::string recover(bool heal = false, int ranks = 3, Io& io = posix_io()) {
    std::string note;
    run(
        [&](int rank, Group& group, Levels& levels) {
          std::string mine;
          auto recovered = levels.recover(group, heal, &mine);
          EXPECT_TRUE(recovered) << recovered.error().text;
          if (rank == 0) note = mine;
        },
        ranks, io);
    return note;
  }

  int64_t restore() {
    auto step = restore_pattern(shared(), nullptr, posix_io(), kWeights);
    return step ? *step : -1;
  }

 private:
  TempDir dir_;
  bool partner_;
  std::atomic<int> runs_{0};
};

void flip_byte(const std::string& path, uint64_t from_end) {
  std::string bytes = read_file(path);
  bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 1);
  write_file(path, bytes);
}

// The file of that name at a node.
std::string file_at(const Cluster& cluster, const std::string& node, const std::string& name) {
  for (const auto& entry : fs::recursive_directory_iterator(cluster.node_directory(node)))
    if (entry.path().filename() == name) return entry.path().string();
  return "";
}

TEST(CheckpointLevels, WhatKilledLearnersLeftOnTheNodesIsBroughtToTheDirectory) {
  Cluster cluster;
  cluster.save_on_nodes(7);
  EXPECT_EQ(cluster.restore(), -1) << "not in the shared directory yet";
  EXPECT_NE(cluster.recover().find("brought step-000000000007."), std::string::npos);
  EXPECT_EQ(cluster.restore(), 7);
  EXPECT_EQ(cluster.recover(), "") << "once";
}

TEST(CheckpointLevels, FewerRanksFindAllFilesOfTheirNodes) {
  Cluster cluster;
  cluster.save_on_nodes(7);
  // One rank on node a, none on b: the part of rank 2 is missing.
  EXPECT_NE(cluster.recover(false, 1).find("no node that is here has its file r00002.h5"), std::string::npos);
  EXPECT_EQ(cluster.restore(), -1);
  EXPECT_TRUE(leftovers(cluster.shared()).empty());
  cluster.recover();
  EXPECT_EQ(cluster.restore(), 7);
}

TEST(CheckpointLevels, ASaveGoesThroughAllLevels) {
  Cluster cluster(true);
  cluster.save_on_nodes(3, /*flush=*/true);
  EXPECT_EQ(cluster.restore(), 3);
  EXPECT_NE(file_at(cluster, "b", "r00000.h5"), "") << "the partner's copy";
  EXPECT_NE(file_at(cluster, "a", "r00002.h5"), "");
}

TEST(CheckpointLevels, ALostNodeLosesNothingWithAPartner) {
  for (const char* lost : {"a", "b"}) {
    Cluster cluster(true);
    cluster.save_on_nodes(7);
    cluster.lose_node(lost);
    cluster.recover();
    EXPECT_EQ(cluster.restore(), 7) << lost;
  }
}

TEST(CheckpointLevels, ALostNodeWithoutAPartnerOrBothNodesLeaveTheSharedCheckpoint) {
  for (const bool partner : {false, true}) {
    Cluster cluster(partner);
    ASSERT_TRUE(save_pattern(cluster.shared(), 1, posix_io(), 3, kWeights));
    cluster.save_on_nodes(7, false, 2);
    cluster.lose_node("b");
    if (partner) cluster.lose_node("a");
    cluster.recover();
    EXPECT_EQ(cluster.restore(), 1);
  }
}

TEST(CheckpointLevels, ADamagedFileOfOneLevelIsTakenFromAnother) {
  Cluster cluster(true);
  cluster.save_on_nodes(7);
  flip_byte(file_at(cluster, "b", "r00002.h5"), 9000);  // its own; node a has the partner's copy
  flip_byte(file_at(cluster, "a", "r00001.h5"), 9000);
  flip_byte(file_at(cluster, "a", "MANIFEST.json"), 200);
  cluster.recover();
  EXPECT_EQ(cluster.restore(), 7);
}

TEST(CheckpointLevels, DamagedEverywhereItIsNotBrought) {
  Cluster cluster;
  cluster.save_on_nodes(7);
  flip_byte(file_at(cluster, "b", "r00002.h5"), 9000);
  EXPECT_NE(cluster.recover().find("checksum"), std::string::npos);
  EXPECT_EQ(cluster.restore(), -1);
  EXPECT_TRUE(leftovers(cluster.shared()).empty());
}

TEST(CheckpointLevels, DamageInTheSharedDirectoryIsHealedFromTheNodes) {
  Cluster cluster(true);
  const CheckpointName name = cluster.save_on_nodes(3, /*flush=*/true);
  const std::string path = checkpoint_path(cluster.shared(), name);
  flip_byte(path + "/r00001.h5", 9000);
  fs::remove(path + "/r00002.h5");
  flip_byte(path + "/MANIFEST.json", 300);
  EXPECT_EQ(cluster.restore(), -1);
  EXPECT_EQ(cluster.recover(false), "");
  EXPECT_NE(cluster.recover(true).find("replaced damaged files"), std::string::npos);
  EXPECT_EQ(cluster.restore(), 3);
  EXPECT_TRUE(leftovers(cluster.shared()).empty());
}

TEST(CheckpointLevels, AnotherRunsNewerBranchIsNotOverruled) {
  Cluster cluster;
  cluster.save_on_nodes(7);  // generation 1
  // Meanwhile the job ran elsewhere, from nothing, and saved in the shared directory.
  ASSERT_TRUE(save_pattern(cluster.shared(), 2, posix_io(), 3, kWeights));
  EXPECT_EQ(cluster.recover(), "");
  EXPECT_EQ(cluster.restore(), 2);
  ASSERT_TRUE(save_pattern(cluster.shared(), 4, posix_io(), 3, kWeights));
  cluster.recover();
  EXPECT_EQ(file_at(cluster, "a", "r00000.h5"), "") << "and what is older is forgotten";
}

// A disk that is full below some paths.
class FullDisk : public Io {
 public:
  explicit FullDisk(std::string prefix) : prefix_(std::move(prefix)) {}
  int open(const std::string& path, int flags) override {
    if ((flags & O_CREAT) && path.compare(0, prefix_.size(), prefix_) == 0) return -ENOSPC;
    return io_.open(path, flags);
  }
  int close(int fd) override { return io_.close(fd); }
  int64_t pread(int fd, void* buffer, size_t size, uint64_t at) override { return io_.pread(fd, buffer, size, at); }
  int64_t pwrite(int fd, const void* data, size_t size, uint64_t at) override { return io_.pwrite(fd, data, size, at); }
  int fsync(int fd) override { return io_.fsync(fd); }
  int fallocate(int fd, uint64_t size) override { return io_.fallocate(fd, size); }
  int ftruncate(int fd, uint64_t size) override { return io_.ftruncate(fd, size); }
  int stat(const std::string& path, Info* info) override { return io_.stat(path, info); }
  int mkdir(const std::string& path) override { return io_.mkdir(path); }
  int rmdir(const std::string& path) override { return io_.rmdir(path); }
  int unlink(const std::string& path) override { return io_.unlink(path); }
  int rename(const std::string& from, const std::string& to) override { return io_.rename(from, to); }
  int link(const std::string& from, const std::string& to) override { return io_.link(from, to); }
  int list(const std::string& path, std::vector<std::string>* names) override { return io_.list(path, names); }
  int fsync_directory(const std::string& path) override { return io_.fsync_directory(path); }

 private:
  Io& io_ = posix_io();
  std::string prefix_;
};

TEST(CheckpointLevels, AFullDirectoryLeavesWhatIsOnTheNodesForLater) {
  Cluster cluster;
  cluster.save_on_nodes(7);
  FullDisk full(cluster.shared() + "/.tmp-step");
  EXPECT_NE(cluster.recover(false, 3, full).find("No space left"), std::string::npos);
  EXPECT_EQ(cluster.restore(), -1);
  cluster.recover();
  EXPECT_EQ(cluster.restore(), 7);
}

// Through the library: saves by ranks of two nodes, and what the next start makes of it.
class ByLibrary {
 public:
  explicit ByLibrary(std::string dir) : dir_(std::move(dir)) {
    std::filesystem::create_directory(shared());
    std::filesystem::create_directory(local());
  }
  std::string shared() const { return dir_ + "/shared"; }
  std::string local() const { return dir_ + "/local"; }
  void run(int ranks, const std::function<void(int, Context&, PatternState&)>& body) {
    const std::string run_id = "lib" + std::to_string(++runs_);
    run_ranks(ranks, [&](int rank) {
      Settings settings = settings_for(shared(), rank, ranks, run_id);
      settings.local_dir = local();
      settings.partner = true;
      settings.node = rank % 2 ? "b" : "a";
      settings.keep = 2;
      auto context = open_context(settings);
      ASSERT_TRUE(context) << context.error().text;
      PatternState state(kWeights);
      ASSERT_TRUE(state.enroll(**context));
      body(rank, **context, state);
    });
  }

 private:
  std::string dir_;
  int runs_ = 0;
};

TEST(CheckpointLevels, TheLibrarySavesThroughAllLevelsAndHealsFromThem) {
  TempDir dir;
  ByLibrary job(dir.path());
  job.run(2, [&](int, Context& context, PatternState& state) {
    for (int64_t step = 1; step <= 3; ++step) {
      state.fill(step);
      auto saved = context.save(step);
      EXPECT_TRUE(saved) << saved.error().text;
    }
  });
  auto names = scan_checkpoints(posix_io(), job.shared());
  ASSERT_EQ(names->size(), 2U);
  EXPECT_TRUE(verify_checkpoint(posix_io(), job.shared(), names->front()));
  SaveHistory history;
  history.load(posix_io(), job.shared());
  EXPECT_EQ(history.rows().size(), 3U);
  EXPECT_GT(history.local_s(), 0);
  EXPECT_GE(history.durable_s(), history.local_s());
  // The newest is damaged in the directory: the nodes have it, and a single rank on node a all of it.
  flip_byte(newest_path(job.shared()) + "/r00001.h5", 9000);
  job.run(1, [&](int, Context& context, PatternState& state) {
    state.clear();
    std::string note;
    auto step = context.restore(DLCKPT_LATEST, &note);
    ASSERT_TRUE(step) << step.error().text;
    EXPECT_EQ(*step, 3) << note;
    EXPECT_NE(note.find("replaced damaged files"), std::string::npos) << note;
    PatternState expected(kWeights);
    expected.fill(3);
    EXPECT_TRUE(state == expected);
  });
  EXPECT_TRUE(verify_checkpoint(posix_io(), job.shared(), names->front()));
}

TEST(CheckpointLevels, AnotherUsersDirectoryIsNotTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to somebody else";
  Cluster cluster;
  cluster.save_on_nodes(7);
  const std::string root = fs::path(cluster.node_directory("a")).parent_path().string();
  ASSERT_EQ(::chown(root.c_str(), 65534, 65534), 0);
  Levels levels(posix_io(), LevelSettings{cluster.shared(), cluster.local(), "a", false, 0, 20});
  auto opened = levels.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kDenied);
}

TEST(CheckpointLevels, PartnersAreOnTheNextNode) {
  using Ranks = std::vector<int>;
  EXPECT_EQ(choose_partners({"a", "a", "a"}), (Ranks{-1, -1, -1}));
  EXPECT_EQ(choose_partners({"a", "a", "b", "b"}), (Ranks{2, 3, 0, 1}));
  EXPECT_EQ(choose_partners({"a", "b", "c"}), (Ranks{1, 2, 0}));
  EXPECT_EQ(choose_partners({"a", "a", "a", "b"}), (Ranks{3, 3, 3, 0}));
  EXPECT_EQ(choose_partners({"a", "b", "a", "b"}), (Ranks{1, 0, 3, 2})) << "cyclic placement";
}

TEST(CheckpointSaveHistory, PredictsByThe95thPercentile) {
  EXPECT_EQ(percentile_95({}), 0);
  EXPECT_EQ(percentile_95({3}), 3);
  EXPECT_EQ(percentile_95({1, 9, 2}), 9);
  std::vector<double> many(100);
  for (int i = 0; i < 100; ++i) many[static_cast<size_t>(i)] = 100 - i;
  EXPECT_EQ(percentile_95(many), 95);
}

TEST(CheckpointSaveHistory, OutlivesTheRunAndHostileLines) {
  TempDir dir;
  SaveHistory first;
  for (int i = 1; i <= 30; ++i) first.add({i, 10, 0.1, 0, static_cast<double>(i)});
  first.store(posix_io(), dir.path());
  const std::string path = dir.path() + "/" + kSavesName;
  write_file(path,
             "\n[]\n{}\n7\n{\"step\":1}\n{\"step\":1,\"bytes\":1,\"blocked_s\":-1,\"local_s\":0,\"durable_s\":1}\n" +
                 std::string("{\"step\":1,\"bytes\":1,\"blocked_s\":\"x\",\"local_s\":0,\"durable_s\":1}\n") +
                 read_file(path) + "{\"step\":31,\"by");
  SaveHistory second;
  second.load(posix_io(), dir.path());
  EXPECT_EQ(second.rows().size(), SaveHistory::kRows);
  EXPECT_EQ(second.durable_s(), 29) << "of 11 to 30";
  EXPECT_EQ(second.blocked_s(), 0.1);
  EXPECT_EQ(second.local_s(), 0) << "no local level";
  SaveHistory none;
  none.load(posix_io(), dir.path() + "/nowhere");
  EXPECT_TRUE(none.rows().empty());
}

// The directory has nothing yet, and a node is lost: the other one's part is named, not passed over in silence.
TEST(CheckpointLevels, WhatASurvivorHoldsIsNamedWhereItIsNotEnough) {
  TempDir dir;
  ByLibrary job(dir.path());
  job.run(2, [&](int, Context& context, PatternState& state) {
    state.fill(1);
    auto saved = context.save(1, DLCKPT_SYNC);
    EXPECT_TRUE(saved) << saved.error().text;
  });
  const auto names = scan_checkpoints(posix_io(), job.shared());
  ASSERT_EQ(names->size(), 1U);
  const std::string name = format_checkpoint_name(names->front());
  fs::remove_all(checkpoint_path(job.shared(), names->front()));
  // With all parts on the nodes, a peek brings them as a restore does.
  job.run(1, [&](int, Context& context, PatternState&) {
    std::string note;
    const auto step = context.peek(DLCKPT_LATEST, &note);
    ASSERT_TRUE(step) << step.error().text;
    EXPECT_EQ(*step, 1);
    EXPECT_NE(note.find("brought"), std::string::npos) << note;
  });
  fs::remove_all(checkpoint_path(job.shared(), names->front()));
  std::vector<fs::path> lost;
  for (const auto& entry : fs::recursive_directory_iterator(dir.path()))
    if (entry.path().filename() == "r00001.h5") lost.push_back(entry.path());
  ASSERT_FALSE(lost.empty());
  for (const fs::path& path : lost) fs::remove(path);
  job.run(1, [&](int, Context& context, PatternState&) {
    for (const bool peek : {true, false}) {
      std::string note;
      const auto step = peek ? context.peek(DLCKPT_LATEST, &note) : context.restore(DLCKPT_LATEST, &note);
      ASSERT_FALSE(step);
      EXPECT_EQ(step.error().code, Errc::kNotFound);
      EXPECT_NE(step.error().text.find(name + " on the nodes: no node that is here has its file r00001.h5"),
                std::string::npos)
          << step.error().text;
    }
  });
}

}  // namespace
}  // namespace dl::ckpt::test
