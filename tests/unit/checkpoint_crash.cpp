// SPDX-License-Identifier: Apache-2.0
// The crash matrix: a power loss after every operation of a save, with everything on the disk that missing fsyncs
// allow (checkpoint_crash_states.h). On each such disk the real loader finds the old or the new checkpoint, bit for
// bit, and the new one once it was reported as saved. And the matrix can fail: without any one of the fsyncs it does.
#include <cstdlib>

#include "tests/unit/checkpoint_crash_states.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr const char* kDir = "/ckpt";
constexpr size_t kWeights = 17000;  // 68 kB: blocks of its own, and 17 pages that can be torn

Settings crash_settings(int keep, int rank = 0, int world_size = 1) {
  Settings settings = settings_for(kDir, rank, world_size);
  settings.job_id = "7";  // the next start of the same job is the heir of the lease
  settings.keep = keep;
  return settings;
}

// Saves train steps first..last in one run, each marked in the record when begun and when reported as saved.
void save_steps(ModelIo& io, int64_t first, int64_t last, int keep, int ranks = 1) {
  setenv("SLURM_RESTART_COUNT", "0", 1);
  run_ranks(ranks, [&](int rank) {
    auto context = open_context(crash_settings(keep, rank, ranks), io);
    ASSERT_TRUE(context) << context.error().text;
    PatternState state(kWeights);
    for (int64_t step = first; step <= last; ++step) {
      state.fill(step);
      ASSERT_TRUE(state.enroll(**context));
      if (rank == 0) io.mark("saving " + std::to_string(step));
      auto saved = (*context)->save(step);
      ASSERT_TRUE(saved) << saved.error().text;
      if (rank == 0) io.mark("saved " + std::to_string(step));
    }
  });
}

// The same in the background: each save is on its way while the state changes for the next.
void save_steps_in_background(ModelIo& io, int64_t first, int64_t last, int keep) {
  setenv("SLURM_RESTART_COUNT", "0", 1);
  Settings settings = crash_settings(keep);
  settings.mode = Settings::kAsync;
  auto context = open_context(settings, io);
  ASSERT_TRUE(context) << context.error().text;
  PatternState state(kWeights);
  int64_t durable = -1;
  for (int64_t step = first; step <= last; ++step) {
    state.fill(step);
    ASSERT_TRUE(state.enroll(**context));
    io.mark("saving " + std::to_string(step));
    std::string former;
    auto saved = (*context)->save(step, 0, &former);
    ASSERT_TRUE(saved && former.empty()) << former;
    state.fill(step + 1000);
    ignore((*context)->wait(0, &durable), "still in flight");
    if (durable >= first) io.mark("saved " + std::to_string(durable));
  }
  auto ended = (*context)->wait(30, &durable);
  ASSERT_TRUE(ended) << ended.error().text;
  ASSERT_EQ(durable, last);
  io.mark("saved " + std::to_string(durable));
}

// What the next start of the job finds on `disk`: empty if it is what it should be, else what is wrong.
std::string judge(const ModelState& disk, int64_t acknowledged, int64_t begun) {
  ModelState later = disk;
  later.now_ms += 120000;  // a machine that starts again takes its time
  ModelIo io(std::move(later), /*record=*/false);
  if (io.state().find(kDir) >= 0) {
    auto names = scan_checkpoints(io, kDir);
    if (!names) return "cannot be listed: " + names.error().text;
    for (const CheckpointName& name : *names) {
      auto verified = verify_checkpoint(io, kDir, name);
      if (!verified) return "published, but not whole: " + verified.error().text;
    }
  }
  setenv("SLURM_RESTART_COUNT", "9", 1);
  auto context = open_context(crash_settings(3), io);
  if (!context) return "cannot be opened: " + context.error().text;
  PatternState state(kWeights), expected(kWeights);
  state.clear();
  if (!state.enroll(**context)) return "cannot enroll";
  std::string note;
  auto restored = (*context)->restore(DLCKPT_LATEST, &note);
  if (!restored) {
    if (acknowledged < 0 && restored.error().code == Errc::kNotFound) return "";
    return "cannot be loaded: " + restored.error().text;
  }
  if (!note.empty()) return note;
  const std::string which = "train step " + std::to_string(*restored);
  if (*restored < acknowledged) return which + " although " + std::to_string(acknowledged) + " was reported as saved";
  if (*restored > begun) return which + " was never saved";
  expected.fill(*restored);
  const std::string* cursor = (*context)->restored_blob("data/cursor");
  if (!(state == expected) || !cursor || *cursor != expected.cursor) return which + " is not what was saved";
  return "";
}

struct Verdict {
  int states = 0, old_ones = 0;
  std::string violation;  // the first
};

// The matrix over what was recorded from `initial` on, for power losses after `from` operations and more. `committed`:
// train step that was there before, or -1.
Verdict explore(const ModelState& initial, const std::vector<ModelOp>& ops, int64_t committed,
                const CrashBounds& bounds = CrashBounds(), size_t from = 0) {
  Verdict verdict;
  int64_t acknowledged = committed, begun = committed;
  for (size_t count = 0; count <= ops.size() && verdict.violation.empty(); ++count) {
    if (count > 0 && ops[count - 1].kind == ModelOp::kMark) {
      const std::string& words = ops[count - 1].name;
      const int64_t step = std::atoll(words.c_str() + words.find(' ') + 1);
      (words.compare(0, 6, "saving") == 0 ? begun : acknowledged) = step;
    }
    if (count < from) continue;
    for_each_crash(initial, ops, count, bounds, [&](const ModelState& disk) {
      if (!verdict.violation.empty()) return;
      ++verdict.states;
      const std::string wrong = judge(disk, acknowledged, begun);
      if (wrong.empty()) return;
      verdict.violation = wrong + "\nafter " + std::to_string(count) + " operations, the last of them:";
      for (size_t i = count > 12 ? count - 12 : 0; i < count; ++i) verdict.violation += "\n  " + describe(ops[i]);
      verdict.violation += "\non the disk:";
      for (const auto& [name, node] : disk.nodes[static_cast<size_t>(std::max(disk.find(kDir), 0))].entries) {
        verdict.violation += "\n  " + name;
        for (const auto& [file, inner] : disk.nodes[static_cast<size_t>(node)].entries)
          verdict.violation += "\n    " + file + " (#" + std::to_string(inner) + ")";
      }
    });
  }
  return verdict;
}

// A disk on which `steps` are committed and everything is durable.
ModelState disk_with(int64_t steps) {
  ModelIo io(ModelState(), /*record=*/false);
  if (steps > 0) save_steps(io, 1, steps, 3);
  return io.state();
}

void expect_whole(const Verdict& verdict, int at_least) {
  EXPECT_EQ(verdict.violation, "");
  EXPECT_GT(verdict.states, at_least);
  testing::Test::RecordProperty("states", verdict.states);
}

TEST(CheckpointCrash, FirstSave) {
  const ModelState initial = disk_with(0);
  ModelIo io(initial);
  save_steps(io, 1, 1, 3);
  expect_whole(explore(initial, io.ops(), -1), 300);
}

TEST(CheckpointCrash, SaveOverAnOlderOne) {
  const ModelState initial = disk_with(1);
  ModelIo io(initial);
  save_steps(io, 2, 2, 3);
  expect_whole(explore(initial, io.ops(), 1), 300);
}

TEST(CheckpointCrash, SavesThatRetireOlderOnes) {
  const ModelState initial = disk_with(2);
  ModelIo io(initial);
  save_steps(io, 3, 4, 1);
  expect_whole(explore(initial, io.ops(), 2), 700);
}

TEST(CheckpointCrash, SavesInTheBackground) {
  const ModelState initial = disk_with(1);
  ModelIo io(initial);
  save_steps_in_background(io, 2, 4, 2);
  expect_whole(explore(initial, io.ops(), 1), 700);
}

TEST(CheckpointCrash, SaveByTwoRanks) {
  const ModelState initial = disk_with(1);
  ModelIo io(initial);
  save_steps(io, 2, 2, 1, 2);
  CrashBounds bounds;
  bounds.exhaustive = 5;
  bounds.samples = 16;
  expect_whole(explore(initial, io.ops(), 1, bounds), 500);
}

// A process that is killed, the next start of the job, and a power loss before that start has come to an end.
TEST(CheckpointCrash, PowerLossInTheStartAfterAKill) {
  const ModelState initial = disk_with(2);
  ModelIo io(initial);
  save_steps(io, 3, 3, 1);
  const std::vector<ModelOp> ops = io.ops();
  CrashBounds bounds;
  bounds.exhaustive = 4;
  bounds.samples = 8;
  int states = 0;
  for (size_t cut = 2; cut < ops.size(); cut += 2) {
    ModelState killed = initial;
    for (size_t i = 0; i < cut; ++i) apply(ops[i], &killed);
    ModelIo next(killed);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    {
      auto context = open_context(crash_settings(3), next);
      ASSERT_TRUE(context) << context.error().text;
    }
    std::vector<ModelOp> both(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(cut));
    for (ModelOp& op : next.ops()) both.push_back(std::move(op));
    const Verdict verdict = explore(initial, both, 2, bounds, cut);
    ASSERT_EQ(verdict.violation, "") << "killed after " << cut;
    states += verdict.states;
  }
  EXPECT_GT(states, 500);
}

// A writer that leaves out one fsync: those of files whose path ends so, or of directories that begin so.
class ForgetfulIo final : public ModelIo {
 public:
  ForgetfulIo(const ModelState& initial, std::string file_suffix, std::string directory)
      : ModelIo(initial), file_suffix_(std::move(file_suffix)), directory_(std::move(directory)) {}
  int open(const std::string& path, int flags) override {
    const int fd = ModelIo::open(path, flags);
    if (fd >= 0) paths_[fd] = path;
    return fd;
  }
  int fsync(int fd) override {
    const std::string& path = paths_[fd];
    const bool forgets = !file_suffix_.empty() && path.size() >= file_suffix_.size() &&
                         path.compare(path.size() - file_suffix_.size(), std::string::npos, file_suffix_) == 0;
    return forgets ? 0 : ModelIo::fsync(fd);
  }
  int fsync_directory(const std::string& path) override {
    const std::string name = path.substr(path.rfind('/') + 1);
    return !directory_.empty() && name.compare(0, directory_.size(), directory_) == 0 ? 0
                                                                                      : ModelIo::fsync_directory(path);
  }

 private:
  std::string file_suffix_, directory_;
  std::map<int, std::string> paths_;
};

struct Forgotten {
  const char* name;
  const char* file_suffix;
  const char* directory;
};
class CheckpointCrashMatrix : public testing::TestWithParam<Forgotten> {};

TEST_P(CheckpointCrashMatrix, FindsAForgottenFsync) {
  const ModelState initial = disk_with(1);
  ForgetfulIo io(initial, GetParam().file_suffix, GetParam().directory);
  save_steps(io, 2, 2, 3);
  EXPECT_NE(explore(initial, io.ops(), 1).violation, "");
}

INSTANTIATE_TEST_SUITE_P(Of, CheckpointCrashMatrix,
                         testing::Values(Forgotten{"DataFiles", ".h5", ""}, Forgotten{"Manifest", "MANIFEST.json", ""},
                                         Forgotten{"AttemptDirectory", "", ".tmp-"},
                                         Forgotten{"CheckpointDirectory", "", "ckpt"}),
                         [](const testing::TestParamInfo<Forgotten>& forgotten) { return forgotten.param.name; });

}  // namespace
}  // namespace dl::ckpt::test
