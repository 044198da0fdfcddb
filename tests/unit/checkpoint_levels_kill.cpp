// SPDX-License-Identifier: Apache-2.0
// Learners on two nodes, with a node-local level: one of them is killed (SIGKILL, a real process) at a chosen moment of
// a save, and what the next start makes of what is left, also after a node is lost. The others are ended once the
// victim is dead, as dlrun does.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "checkpoint/levels/levels.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWeights = 1200000;  // enough for both ranks to write a part

// The real files; before each operation that changes something, `hook` hears what it is.
class HookedIo final : public Io {
 public:
  std::function<void(const std::string&)> hook;

  int open(const std::string& path, int flags) override {
    if (flags & (O_CREAT | O_TRUNC)) tell("open " + path);
    return io_.open(path, flags);
  }
  int close(int fd) override { return io_.close(fd); }
  int64_t pread(int fd, void* buffer, size_t size, uint64_t at) override { return io_.pread(fd, buffer, size, at); }
  int64_t pwrite(int fd, const void* data, size_t size, uint64_t at) override {
    tell("pwrite");
    return io_.pwrite(fd, data, size, at);
  }
  int fsync(int fd) override {
    tell("fsync");
    return io_.fsync(fd);
  }
  int fallocate(int fd, uint64_t size) override { return io_.fallocate(fd, size); }
  int ftruncate(int fd, uint64_t size) override { return io_.ftruncate(fd, size); }
  int stat(const std::string& path, Info* info) override { return io_.stat(path, info); }
  int mkdir(const std::string& path) override {
    tell("mkdir " + path);
    return io_.mkdir(path);
  }
  int rmdir(const std::string& path) override {
    tell("rmdir " + path);
    return io_.rmdir(path);
  }
  int unlink(const std::string& path) override {
    tell("unlink " + path);
    return io_.unlink(path);
  }
  int chmod(const std::string& path, unsigned mode) override { return io_.chmod(path, mode); }
  int rename(const std::string& from, const std::string& to) override {
    tell("rename " + from + " to " + to);
    return io_.rename(from, to);
  }
  int link(const std::string& from, const std::string& to) override { return io_.link(from, to); }
  int list(const std::string& path, std::vector<std::string>* names) override { return io_.list(path, names); }
  int fsync_directory(const std::string& path) override {
    tell("fsync " + path);
    return io_.fsync_directory(path);
  }

 private:
  void tell(const std::string& what) {
    if (hook) hook(what);
  }
  Io& io_ = posix_io();
};

// Ranks 0 and 1 on the nodes a and b.
class Job {
 public:
  explicit Job(bool partner) : partner_(partner) {
    fs::create_directory(shared());
    fs::create_directory(local());
  }
  std::string shared() const { return dir_.path() + "/shared"; }
  std::string local() const { return dir_.path() + "/local"; }
  void lose_node(const std::string& node) const {
    for (const auto& entry : fs::directory_iterator(local())) fs::remove_all(entry.path() / node);
  }

  Settings settings(int rank, const std::string& run_id) const {
    Settings settings = settings_for(shared(), rank, 2, run_id);
    settings.local_dir = local();
    settings.partner = partner_;
    settings.node = rank == 0 ? "a" : "b";
    settings.keep = 5;
    return settings;
  }

  // Train step 1 is saved through all levels; in the save of train step 2 the victim dies when `dies` says so of what
  // it is about to do. False if it did not come to that.
  bool killed_in_save(int victim, const std::function<bool(const std::string&)>& dies) const {
    pid_t children[2];
    for (int rank = 0; rank < 2; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) learn(rank, rank == victim ? dies : std::function<bool(const std::string&)>());
      children[rank] = pid;
    }
    int status = 0;
    waitpid(children[victim], &status, 0);
    const bool died = WIFSIGNALED(status);
    if (!died) {
      EXPECT_EQ(WEXITSTATUS(status), 0) << "a save failed";
    }
    usleep(20000);
    kill(children[1 - victim], SIGKILL);
    waitpid(children[1 - victim], &status, 0);
    return died;
  }

  // The next start, on both nodes: the train step that it goes on from (0: none), and rank 0's note.
  int64_t next_start(std::string* note = nullptr) {
    std::atomic<int64_t> found{0};
    const std::string run_id = "next" + std::to_string(++starts_);
    run_ranks(2, [&](int rank) {
      auto context = open_context(settings(rank, run_id));
      ASSERT_TRUE(context) << context.error().text;
      PatternState state(kWeights), expected(kWeights);
      state.clear();
      ASSERT_TRUE(state.enroll(**context));
      std::string mine;
      auto step = (*context)->restore(DLCKPT_LATEST, &mine);
      ASSERT_TRUE(step) << step.error().text;
      expected.fill(*step);
      EXPECT_TRUE(state == expected) << "not the state of train step " << *step;
      if (rank != 0) return;
      found = *step;
      if (note) *note = mine;
    });
    const auto names = scan_checkpoints(posix_io(), shared());
    EXPECT_TRUE(names);
    for (const CheckpointName& name : names ? *names : std::vector<CheckpointName>()) {
      auto verified = verify_checkpoint(posix_io(), shared(), name);
      EXPECT_TRUE(verified) << verified.error().text;
    }
    EXPECT_TRUE(leftovers(shared()).empty());
    return found;
  }

 private:
  [[noreturn]] void learn(int rank, const std::function<bool(const std::string&)>& dies) const {
    HookedIo io;
    auto context = open_context(settings(rank, "first"), io);
    if (!context) _exit(3);
    PatternState state(kWeights);
    for (int64_t step = 1; step <= 2; ++step) {
      state.fill(step);
      if (!state.enroll(**context)) _exit(4);
      if (step == 2 && dies)
        io.hook = [&](const std::string& what) {
          if (dies(what)) kill(getpid(), SIGKILL);
        };
      if (!(*context)->save(step)) _exit(5);
    }
    io.hook = nullptr;
    _exit(0);
  }

  TempDir dir_;
  bool partner_;
  int starts_ = 0;
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What is about to be done in the directory of all, or in that of a node.
struct Moment {
  const char* name;
  int victim;
  bool partner;
  std::function<bool(const std::string& what, const Job& job)> is;
  int64_t then;            // the train step from which the next start goes on
  int64_t then_without_a;  // after node a is lost
  int64_t then_without_b;
};

const std::vector<Moment>& moments() {
  const auto local_commit = [](const std::string& what, const Job& job) {
    return holds(what, "rename " + job.local()) && holds(what, "/.tmp-step") && holds(what, " to " + job.local());
  };
  const auto partner_copy = [](const std::string& what, const Job& job) {
    return holds(what, "mkdir " + job.local()) && holds(what, "/.tmp-partner-");
  };
  const auto partner_commit = [](const std::string& what, const Job& job) {
    return holds(what, "rename " + job.local()) && holds(what, "/.tmp-partner-");
  };
  const auto shared_copy = [](const std::string& what, const Job& job) {
    return holds(what, "open " + job.shared() + "/.tmp-step") && holds(what, ".h5");
  };
  const auto shared_manifest = [](const std::string& what, const Job& job) {
    return holds(what, job.shared() + "/.tmp-step") && holds(what, "MANIFEST");
  };
  const auto shared_commit = [](const std::string& what, const Job& job) {
    return holds(what, "rename " + job.shared() + "/.tmp-step") && !holds(what, "MANIFEST");
  };
  // The directory of all is made durable after the rename: the checkpoint is there.
  const auto after = [](const std::string& what, const Job& job) { return what == "fsync " + job.shared(); };
  static const std::vector<Moment> all = {
      {"before its local commit", 0, false, local_commit, 1, 1, 1},
      {"before its local commit", 1, false, local_commit, 1, 1, 1},
      {"before its local commit", 0, true, local_commit, 1, 1, 1},
      {"before its local commit", 1, true, local_commit, 1, 1, 1},
      // All have committed on their nodes.
      {"before the partner's copy", 0, true, partner_copy, 2, 1, 1},
      {"before the partner's copy", 1, true, partner_copy, 2, 1, 1},
      {"before the partner's copy is put in place", 0, true, partner_commit, 2, -1, 1},
      {"before the partner's copy is put in place", 1, true, partner_commit, 2, 1, -1},
      {"before its copy to the directory", 0, false, shared_copy, 2, 1, 1},
      {"before its copy to the directory", 1, false, shared_copy, 2, 1, 1},
      {"before its copy to the directory", 0, true, shared_copy, 2, 2, 2},
      {"before its copy to the directory", 1, true, shared_copy, 2, 2, 2},
      {"before the manifest", 0, false, shared_manifest, 2, 1, 1},
      {"before the manifest", 0, true, shared_manifest, 2, 2, 2},
      {"before the commit", 0, false, shared_commit, 2, 1, 1},
      {"before the commit", 0, true, shared_commit, 2, 2, 2},
      {"after the commit", 0, false, after, 2, 2, 2},
      {"after the commit", 0, true, after, 2, 2, 2},
  };
  return all;
}

TEST(CheckpointLevelsKill, TheNextStartGoesOnFromTheNewestThatAnyLevelHas) {
  for (const Moment& moment : moments()) {
    SCOPED_TRACE(std::string(moment.name) + ", rank " + std::to_string(moment.victim) +
                 (moment.partner ? ", with a partner" : ""));
    Job job(moment.partner);
    ASSERT_TRUE(job.killed_in_save(moment.victim, [&](const std::string& what) { return moment.is(what, job); }))
        << "never came to that moment";
    const bool in_directory = scan_checkpoints(posix_io(), job.shared())->front().step == 2;
    std::string note;
    EXPECT_EQ(job.next_start(&note), moment.then) << note;
    EXPECT_EQ(holds(note, "brought step-000000000002."), moment.then == 2 && !in_directory) << note;
    EXPECT_EQ(job.next_start(), moment.then) << "and once more";
  }
}

TEST(CheckpointLevelsKill, WithANodeLostBesidesOnlyAPartnerKeepsTheNewest) {
  for (const Moment& moment : moments())
    for (const char* lost : {"a", "b"}) {
      SCOPED_TRACE(std::string(moment.name) + ", rank " + std::to_string(moment.victim) +
                   (moment.partner ? ", with a partner" : "") + ", lost " + lost);
      const int64_t then = *lost == 'a' ? moment.then_without_a : moment.then_without_b;
      Job job(moment.partner);
      ASSERT_TRUE(job.killed_in_save(moment.victim, [&](const std::string& what) { return moment.is(what, job); }));
      job.lose_node(lost);
      const int64_t found = job.next_start();
      if (then < 0) {
        EXPECT_TRUE(found == 1 || found == 2) << found;  // whether the other rank had put its copy in place meanwhile
      } else {
        EXPECT_EQ(found, then);
      }
    }
}

// Rank 0 dies at each operation of the save that changes something, one after another.
TEST(CheckpointLevelsKill, TheCoordinatorMayDieAtAnyOperation) {
  for (const bool partner : {false, true}) {
    bool seen_new = false, seen_old = false, came = true;
    int at = 0;
    for (; came; at += 2) {
      SCOPED_TRACE("operation " + std::to_string(at) + (partner ? ", with a partner" : ""));
      Job job(partner);
      came = job.killed_in_save(0, [number = 0, at](const std::string&) mutable { return number++ == at; });
      const int64_t found = job.next_start();
      EXPECT_TRUE(found == 1 || found == 2) << found;
      (found == 2 ? seen_new : seen_old) = true;
      if (!came) {
        EXPECT_EQ(found, 2) << "the save was done";
      }
      EXPECT_FALSE(seen_new && found == 1) << "later is not worse";
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(seen_old && seen_new);
    EXPECT_GT(at, 20);
  }
}

}  // namespace
}  // namespace dl::ckpt::test
