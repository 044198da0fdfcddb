// SPDX-License-Identifier: Apache-2.0
// A checkpoint that its job retires while somebody else reads it is no damaged one: readers take a newer one, or say
// so.
#include <gtest/gtest.h>

#include "checkpoint/read/reader.h"
#include "checkpoint/store/retire.h"
#include "common/base/parse.h"
#include "tests/unit/checkpoint_faulty_io.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

namespace fs = std::filesystem;

// Before the reader's operation number `at`, the job commits its next checkpoint, retires the one before, and
// overwrites its files, as it does for the checkpoint after that. It may do so again before each later operation.
class RetiringIo final : public FaultyIo {
 public:
  RetiringIo(std::string dir, int at, int times)
      : FaultyIo(kErrno, INT32_MAX), dir_(std::move(dir)), at_(at), left_(times) {}
  bool retired() const { return retired_; }

  int open(const std::string& path, int flags) override {
    turn();
    return FaultyIo::open(path, flags);
  }
  int64_t pread(int fd, void* buffer, size_t size, uint64_t at) override {
    turn();
    return FaultyIo::pread(fd, buffer, size, at);
  }
  int stat(const std::string& path, Info* info) override {
    turn();
    return FaultyIo::stat(path, info);
  }
  int list(const std::string& path, std::vector<std::string>* names) override {
    turn();
    return FaultyIo::list(path, names);
  }

 private:
  void turn() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (number_++ < at_ || left_ == 0) return;
    --left_;
    retired_ = true;
    const std::string before = newest_path(dir_);
    const int64_t step = parse_checkpoint_name(fs::path(before).filename().string())->step;
    ASSERT_TRUE(save_pattern(dir_, step + 1, posix_io(), 9));
    const std::string away = dir_ + "/.tmp-retired-" + fs::path(before).filename().string();
    fs::rename(before, away);
    for (const auto& entry : fs::directory_iterator(away))
      if (entry.path().extension() == ".h5")
        write_file(entry.path().string(), std::string(fs::file_size(entry), '\xEE'));
  }

  std::string dir_;
  std::mutex mutex_;
  int number_ = 0, at_, left_;
  bool retired_ = false;
};

// Opens the checkpoint and reads its weights: they are those of its step, or the outcome is an error.
Status read_it(Io& io, const std::string& dir, std::optional<int64_t> step, std::string* passed = nullptr) {
  DL_TRY_ASSIGN(Reader reader, Reader::open(io, dir, step));
  if (passed) *passed = join(reader.passed_over(), "; ");
  PatternState expected, got;
  expected.fill(reader.name().step);
  const TensorRecord* tensor = reader.manifest().find_tensor("model/weights");
  if (!tensor) return Error{Errc::kInternal, "no weights"};
  DL_TRY(reader.load(*tensor, whole(tensor->shape), got.weights.data()));
  EXPECT_TRUE(got.weights == expected.weights) << "wrong values of train step " << reader.name().step;
  return {};
}

TEST(Vanished, AReaderTakesANewerOneOrSaysThatItWasRemoved) {
  for (int at = 0;; ++at) {
    SCOPED_TRACE(at);
    ASSERT_LT(at, 1000);
    const TempDir dir;
    ASSERT_TRUE(save_pattern(dir.path(), 1));
    RetiringIo io(dir.path(), at, 1);
    std::string passed;
    const Status outcome = read_it(io, dir.path(), std::nullopt, &passed);
    EXPECT_EQ(passed, "") << "what was removed was not passed over, it is not there";
    if (!outcome) {
      EXPECT_EQ(outcome.error().code, Errc::kNotFound) << outcome.error().text;
      EXPECT_NE(outcome.error().text.find("the checkpoint of train step 1 in " + dir.path() +
                                          " was removed by its job meanwhile; the newest is that of train step 2"),
                std::string::npos)
          << outcome.error().text;
    }
    if (!io.retired()) break;
  }
}

TEST(Vanished, AJobThatRetiresFasterThanAnybodyReadsIsFollowedForAWhile) {
  const TempDir dir;
  ASSERT_TRUE(save_pattern(dir.path(), 1));
  RetiringIo io(dir.path(), 2, 40);
  EXPECT_TRUE(read_it(io, dir.path(), std::nullopt));
  EXPECT_TRUE(io.retired());
}

TEST(Vanished, AStepThatWasAskedForIsSaidToBeRemoved) {
  for (int at = 1;; ++at) {
    SCOPED_TRACE(at);
    ASSERT_LT(at, 1000);
    const TempDir dir;
    ASSERT_TRUE(save_pattern(dir.path(), 1));
    RetiringIo io(dir.path(), at, 1);
    const Status outcome = read_it(io, dir.path(), 1);
    if (!io.retired()) break;
    if (outcome) continue;  // the data had been read
    EXPECT_EQ(outcome.error().code, Errc::kNotFound);
    EXPECT_TRUE(outcome.error().text.find("removed by its job meanwhile; the newest is that of train step 2") !=
                    std::string::npos ||
                outcome.error().text.find("no checkpoint of train step 1 in") != std::string::npos)
        << outcome.error().text;
  }
}

TEST(Vanished, ASurveyForRetentionDoesNotCallItDamaged) {
  for (int at = 0;; ++at) {
    SCOPED_TRACE(at);
    ASSERT_LT(at, 1000);
    const TempDir dir;
    ASSERT_TRUE(save_pattern(dir.path(), 1));
    RetiringIo io(dir.path(), at, 1);
    const auto found = survey(io, dir.path(), nullptr);
    ASSERT_TRUE(found);
    for (const CheckpointFacts& facts : *found) EXPECT_TRUE(facts.intact) << facts.name.step;
    if (!io.retired()) break;
  }
}

TEST(Vanished, ANameThatLeadsNowhereHidesNoDamage) {
  const TempDir dir;
  ASSERT_TRUE(save_pattern(dir.path(), 1));
  const std::string damaged = newest_path(dir.path());
  ASSERT_TRUE(save_pattern(dir.path(), 2));
  const std::string newest = newest_path(dir.path());
  fs::remove_all(newest);
  fs::create_symlink(dir.path() + "/nowhere", newest);
  EXPECT_TRUE(Reader::open(posix_io(), dir.path(), std::nullopt));
  fs::remove(damaged + "/MANIFEST.json");
  const auto opened = Reader::open(posix_io(), dir.path(), std::nullopt);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kCorrupt) << opened.error().text;
}

TEST(Vanished, WhatIsThereAndCannotBeReadStaysDamaged) {
  const TempDir dir;
  ASSERT_TRUE(save_pattern(dir.path(), 1));
  fs::remove(newest_path(dir.path()) + "/MANIFEST.json");
  const auto opened = Reader::open(posix_io(), dir.path(), std::nullopt);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kCorrupt) << opened.error().text;
}

}  // namespace
}  // namespace dl::ckpt::test
