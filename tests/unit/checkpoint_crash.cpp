// SPDX-License-Identifier: Apache-2.0
// The crash matrix (checkpoint_crash_matrix.h) over saves of every kind. And the matrix can fail: without any one of
// the fsyncs it does.
#include <cstdlib>

#include "tests/unit/checkpoint_crash_matrix.h"

namespace dl::ckpt::test {
namespace {

// As save_steps(), but in the background: each save is on its way while the state changes for the next.
void save_steps_in_background(ModelIo& io, int64_t first, int64_t last, const CrashJob& job) {
  setenv("SLURM_RESTART_COUNT", "0", 1);
  Settings settings = job.settings();
  settings.mode = Settings::kAsync;
  auto context = open_context(settings, io);
  ASSERT_TRUE(context) << context.error().text;
  PatternState state(job.weights);
  int64_t durable = -1;
  for (int64_t step = first; step <= last; ++step) {
    state.fill(step);
    ASSERT_TRUE(state.enroll(**context));
    mark_saving(io, step);
    std::string former;
    auto saved = (*context)->save(step, 0, &former);
    ASSERT_TRUE(saved && former.empty()) << former;
    state.fill(step + 1000);
    ignore((*context)->wait(0, &durable), "still in flight");
    if (durable >= first) mark_saved(io, durable);
  }
  auto ended = (*context)->wait(30, &durable);
  ASSERT_TRUE(ended) << ended.error().text;
  ASSERT_EQ(durable, last);
  mark_saved(io, durable);
}

// The matrix of saves first..last on a disk on which all before are committed.
void expect_safe(const CrashJob& job, int64_t first, int64_t last, int at_least,
                 const CrashBounds& bounds = CrashBounds()) {
  const ModelState initial = disk_with(first - 1, job);
  ModelIo io(initial);
  save_steps(io, first, last, job);
  if (testing::Test::HasFailure()) return;
  expect_whole(explore(initial, io.ops(), first > 1 ? first - 1 : -1, job, bounds), at_least);
}

// For saves with so many operations that are not durable that not all combinations can be tried.
CrashBounds sampled() {
  CrashBounds bounds;
  bounds.exhaustive = 4;
  bounds.samples = 12;
  return bounds;
}

CrashJob keeping(int keep) {
  CrashJob job;
  job.keep = keep;
  return job;
}

TEST(CheckpointCrash, FirstSave) {
  expect_safe(CrashJob(), 1, 1, 300);
}

TEST(CheckpointCrash, SaveOverAnOlderOne) {
  expect_safe(CrashJob(), 2, 2, 300);
}

TEST(CheckpointCrash, SavesThatRetireOlderOnes) {
  expect_safe(keeping(1), 3, 4, 700);
}

TEST(CheckpointCrash, SavesInTheBackground) {
  const ModelState initial = disk_with(1);
  ModelIo io(initial);
  save_steps_in_background(io, 2, 4, keeping(2));
  expect_whole(explore(initial, io.ops(), 1), 700);
}

TEST(CheckpointCrash, SaveByTwoRanks) {
  CrashJob job = keeping(1);
  job.ranks = 2;
  expect_safe(job, 2, 2, 500, sampled());
}

// Each save from the third on writes over the file of the last but one, which is larger or smaller.
TEST(CheckpointCrash, SavesThatWriteRetiredFilesAgain) {
  CrashJob job = keeping(1);
  job.sizes = true;
  const ModelState initial = disk_with(0);
  ModelIo io(initial);
  save_steps(io, 1, 5, job);
  EXPECT_EQ(recycled_files(io.ops()), 3);
  expect_whole(explore(initial, io.ops(), -1, job, sampled()), 1000);
}

TEST(CheckpointCrash, TwoRanksThatWriteRetiredFilesAgain) {
  CrashJob job = keeping(1);
  job.ranks = 2;
  job.weights = 40000;  // files so large that they are kept for that
  const ModelState initial = disk_with(1, job);
  ModelIo io(initial);
  save_steps(io, 2, 3, job);
  EXPECT_EQ(recycled_files(io.ops()), 2);
  CrashBounds bounds = sampled();
  bounds.exhaustive = 3;
  bounds.samples = 8;
  expect_whole(explore(initial, io.ops(), 1, job, bounds), 300);
}

TEST(CheckpointCrash, SavesWithFilesOfTheProgram) {
  CrashJob job = keeping(1);
  job.members = true;
  expect_safe(job, 2, 3, 700, sampled());
}

TEST(CheckpointCrash, TwoRanksWithFilesOfTheProgram) {
  CrashJob job = keeping(1);
  job.members = true;
  job.ranks = 2;
  CrashBounds bounds = sampled();
  bounds.exhaustive = 3;
  bounds.samples = 8;
  expect_safe(job, 2, 2, 300, bounds);
}

CrashJob freezing(int keep) {
  CrashJob job = keeping(keep);
  job.frozen = true;
  job.weights = 70000;  // worth a file of their own
  return job;
}

// Weights that do not change for some saves: their file is one, with a name in each of these checkpoints, while the one
// that wrote it is retired, and the next, until it is written again.
class CheckpointCrashLinks : public testing::TestWithParam<int> {};

TEST_P(CheckpointCrashLinks, OutliveTheCheckpointThatWroteThem) {
  CrashJob job = freezing(GetParam());
  job.weights_of = [](int64_t step) { return step - step % 4; };
  const ModelState initial = disk_with(0);
  ModelIo io(initial);
  save_steps(io, 1, 7, job);
  if (HasFailure()) return;
  EXPECT_GE(linked_files(io.ops()), 2);
  expect_whole(explore(initial, io.ops(), -1, job, sampled()), 1000);
}

INSTANTIATE_TEST_SUITE_P(Keeping, CheckpointCrashLinks, testing::Values(1, 2), testing::PrintToStringParamName());

TEST(CheckpointCrash, ARestartThatGoesOnSharingAFile) {
  CrashJob job = freezing(1);
  job.weights_of = [](int64_t) { return 0; };
  const ModelState initial = disk_with(2, job);
  ModelIo io(initial);
  {
    auto context = open_context(job.settings(), io);
    ASSERT_TRUE(context) << context.error().text;
    PatternState state(job.weights);
    ASSERT_TRUE(enroll(**context, job, 0, &state));
    std::string note;
    ASSERT_TRUE((*context)->restore(DLCKPT_LATEST, &note));
    for (int64_t step = 3; step <= 4; ++step) {
      state = job.state(step);
      ASSERT_TRUE(enroll(**context, job, 0, &state));
      mark_saving(io, step);
      auto saved = (*context)->save(step);
      ASSERT_TRUE(saved) << saved.error().text;
      mark_saved(io, step);
    }
  }
  EXPECT_EQ(linked_files(io.ops()), 2);
  expect_whole(explore(initial, io.ops(), 2, job, sampled()), 500);
}

// A process that is killed, the next start of the job, and a power loss before that start has come to an end.
TEST(CheckpointCrash, PowerLossInTheStartAfterAKill) {
  CrashJob job;
  job.keep = 1;
  const ModelState initial = disk_with(2);
  ModelIo io(initial);
  save_steps(io, 3, 3, job);
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
      auto context = open_context(CrashJob().settings(), next);
      ASSERT_TRUE(context) << context.error().text;
    }
    std::vector<ModelOp> both(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(cut));
    for (ModelOp& op : next.ops()) both.push_back(std::move(op));
    const CrashVerdict verdict = explore(initial, both, 2, CrashJob(), bounds, cut);
    ASSERT_EQ(verdict.violation, "") << "killed after " << cut;
    states += verdict.states;
  }
  EXPECT_GT(states, least_made(500));
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
  bool members = false;
};
class CheckpointCrashMatrix : public testing::TestWithParam<Forgotten> {};

TEST_P(CheckpointCrashMatrix, FindsAForgottenFsync) {
  CrashJob job;
  job.members = GetParam().members;
  const ModelState initial = disk_with(1, job);
  ForgetfulIo io(initial, GetParam().file_suffix, GetParam().directory);
  save_steps(io, 2, 2, job);
  EXPECT_NE(explore(initial, io.ops(), 1, job, sampled()).violation, "");
}

INSTANTIATE_TEST_SUITE_P(Of, CheckpointCrashMatrix,
                         testing::Values(Forgotten{"DataFiles", ".h5", ""}, Forgotten{"Manifest", "MANIFEST.json", ""},
                                         Forgotten{"AttemptDirectory", "", ".tmp-"},
                                         Forgotten{"CheckpointDirectory", "", "ckpt"},
                                         Forgotten{"Members", ".0000", "", true}),
                         [](const testing::TestParamInfo<Forgotten>& forgotten) { return forgotten.param.name; });

// A writer that takes a retired checkpoint's files before it is durable that it is none any more.
class HastyIo final : public ModelIo {
 public:
  using ModelIo::ModelIo;
  int rename(const std::string& from, const std::string& to) override {
    hasty_ = to.find(".tmp-slot-") != std::string::npos;
    return ModelIo::rename(from, to);
  }
  int fsync_directory(const std::string& path) override { return hasty_ ? 0 : ModelIo::fsync_directory(path); }

 private:
  bool hasty_ = false;
};

TEST(CheckpointCrashMatrix, FindsARetirementThatIsNotDurable) {
  const CrashJob job = keeping(1);
  const ModelState initial = disk_with(1);
  HastyIo io(initial);
  save_steps(io, 2, 3, job);
  EXPECT_GT(recycled_files(io.ops()), 0);
  EXPECT_NE(explore(initial, io.ops(), 1, job, sampled()).violation, "");
}

}  // namespace
}  // namespace dl::ckpt::test
