// SPDX-License-Identifier: Apache-2.0
// Damage of every kind to every byte of a committed checkpoint: always noticed, never loaded, never a crash; the loader
// falls back to the older one and says so.
#include <random>

#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

// Two committed checkpoints by two ranks, train steps 1 and 2; the newer is to be damaged.
class CheckpointDamage : public testing::Test {
 protected:
  void SetUp() override {
    for (int64_t step = 1; step <= 2; ++step) {
      run_ranks(2, [&](int rank) {
        auto context = open_context(settings_for(dir_.path(), rank, 2, "run" + std::to_string(step)));
        ASSERT_TRUE(context) << context.error().text;
        PatternState state(kWeights);
        state.fill(step);
        ASSERT_TRUE(state.enroll_sharded(**context, rank, 2));
        auto saved = (*context)->save(step);
        ASSERT_TRUE(saved) << saved.error().text;
      });
    }
    auto names = scan_checkpoints(posix_io(), dir_.path());
    ASSERT_EQ(names->size(), 2U);
    newest_ = names->front();
    path_ = checkpoint_path(dir_.path(), newest_);
    ASSERT_FALSE(content("r00001.h5").empty());
    older_path_ = checkpoint_path(dir_.path(), names->back());
  }
  bool verifies() { return static_cast<bool>(verify_checkpoint(posix_io(), dir_.path(), newest_)); }
  // The loader takes train step 1 and names the newer one.
  void expect_fallback() {
    std::string note;
    auto restored = restore_pattern(dir_.path(), &note, posix_io(), kWeights);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(*restored, 1);
    EXPECT_NE(note.find("passed over " + format_checkpoint_name(newest_)), std::string::npos) << note;
  }
  // The loader reads only the blocks it needs: it falls back, or the damage is where nothing of the state lies.
  // restore_pattern() compares what it gave bit for bit.
  void expect_nothing_wrong_is_loaded() {
    std::string note;
    auto restored = restore_pattern(dir_.path(), &note, posix_io(), kWeights);
    ASSERT_TRUE(restored) << restored.error().text;
    restored_ = *restored;
    EXPECT_TRUE(*restored == 2 || note.find("passed over " + format_checkpoint_name(newest_)) != std::string::npos);
  }
  void damage(const std::string& file, const std::string& bytes) { write_file(path_ + "/" + file, bytes); }
  std::string content(const std::string& file) { return read_file(path_ + "/" + file); }

  static constexpr size_t kWeights = 40000;  // 160 kB: a block of its own
  TempDir dir_;
  int64_t restored_ = -1;
  CheckpointName newest_;
  std::string path_, older_path_;
};

TEST_F(CheckpointDamage, EveryByteOfEveryFile) {
  std::mt19937 random(6);
  for (const std::string file : {"MANIFEST.json", "r00000.h5", "r00001.h5"}) {
    const std::string good = content(file);
    ASSERT_TRUE(verifies());
    std::fstream stream(path_ + "/" + file, std::ios::in | std::ios::out | std::ios::binary);
    // Each byte of the small ones, a sample of the larger.
    const size_t step = good.size() > 60000 ? 23 : 3;
    for (size_t i = random() % step; i < good.size(); i += 1 + random() % (2 * step - 1)) {
      const auto put = [&](char c) {
        stream.seekp(static_cast<std::streamoff>(i));
        stream.put(c);
        stream.flush();
      };
      put(static_cast<char>(good[i] ^ (1 << (random() % 8))));
      ASSERT_FALSE(verifies()) << file << " byte " << i;
      put(good[i]);
    }
    ASSERT_TRUE(verifies());
  }
}

TEST_F(CheckpointDamage, FlippedBytesMakeTheLoaderFallBack) {
  std::mt19937 random(7);
  for (const std::string file : {"MANIFEST.json", "r00000.h5", "r00001.h5"}) {
    const std::string good = content(file);
    int fallen_back = 0;
    for (int i = 0; i < 20; ++i) {
      std::string bad = good;
      char& byte = bad[random() % bad.size()];
      byte = static_cast<char>(byte ^ (1 << (random() % 8)));
      damage(file, bad);
      EXPECT_FALSE(verifies());
      expect_nothing_wrong_is_loaded();
      fallen_back += restored_ == 1 ? 1 : 0;
    }
    EXPECT_GT(fallen_back, 10) << file;
    damage(file, good);
  }
}

TEST_F(CheckpointDamage, TruncatedExtendedEmptyAndMissingFiles) {
  std::mt19937 random(8);
  for (const std::string file : {"MANIFEST.json", "r00000.h5", "r00001.h5"}) {
    const std::string good = content(file);
    for (const size_t length : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, good.size() / 2, good.size() - 1}) {
      if (length >= good.size()) continue;
      damage(file, good.substr(0, length));
      ASSERT_FALSE(verifies()) << file << " " << length;
    }
    expect_fallback();
    for (const size_t more : {1, 4096}) {
      damage(file, good + std::string(more, '\0'));
      ASSERT_FALSE(verifies()) << file << " + " << more;
    }
    expect_fallback();
    std::filesystem::remove(path_ + "/" + file);
    ASSERT_FALSE(verifies());
    expect_fallback();
    std::filesystem::create_directory(path_ + "/" + file);
    ASSERT_FALSE(verifies());
    expect_fallback();
    std::filesystem::remove(path_ + "/" + file);
    std::filesystem::create_symlink("/nowhere", path_ + "/" + file);
    ASSERT_FALSE(verifies());
    std::filesystem::remove(path_ + "/" + file);
    damage(file, good);
    ASSERT_TRUE(verifies());
  }
}

TEST_F(CheckpointDamage, FilesSwappedOrTakenFromAnotherSave) {
  const std::string first = content("r00000.h5"), second = content("r00001.h5"), manifest = content("MANIFEST.json");
  damage("r00000.h5", second);
  damage("r00001.h5", first);
  ASSERT_FALSE(verifies());
  expect_fallback();
  damage("r00000.h5", first);
  damage("r00001.h5", read_file(older_path_ + "/r00001.h5"));
  ASSERT_FALSE(verifies());
  expect_fallback();
  damage("r00001.h5", second);
  damage("MANIFEST.json", read_file(older_path_ + "/MANIFEST.json"));
  ASSERT_FALSE(verifies());
  expect_fallback();
  damage("MANIFEST.json", manifest);
  ASSERT_TRUE(verifies());
}

TEST_F(CheckpointDamage, WhenNothingVerifiesThatIsSaidAndMemoryIsUntouched) {
  write_file(path_ + "/r00000.h5", "x");
  write_file(older_path_ + "/r00001.h5", "x");
  auto context = open_context(settings_for(dir_.path()));
  PatternState state(kWeights), untouched(kWeights);
  state.clear();
  untouched.clear();
  ASSERT_TRUE(state.enroll(**context));
  std::string note;
  auto restored = (*context)->restore(DLCKPT_LATEST, &note);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::kCorrupt);
  EXPECT_TRUE(state == untouched);
  EXPECT_EQ((*context)->latest(), 2);  // manifests alone are looked at
  // A train step that is there but damaged is not replaced by another.
  restored = (*context)->restore(2, &note);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::kCorrupt);
  restored = (*context)->restore(3, &note);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::kNotFound);
}

TEST_F(CheckpointDamage, WhatDoesNotFitIsAMismatchAndNothingIsLoaded) {
  auto context = open_context(settings_for(dir_.path()));
  Registry& registry = (*context)->registry();
  std::vector<uint32_t> weights(kWeights, 7);
  std::vector<float> floats(kWeights, 7);
  const auto n = static_cast<int64_t>(kWeights);
  const int64_t other = 10;
  float scalar = 7;
  std::string note;
  const auto expect_mismatch = [&](const char* words) {
    auto restored = (*context)->restore(DLCKPT_LATEST, &note);
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().code, Errc::kConflict) << restored.error().text;
    EXPECT_NE(restored.error().text.find(words), std::string::npos) << restored.error().text;
    EXPECT_EQ(weights[0], 7U);
  };
  ASSERT_TRUE(registry.add_tensor("model/weights", DLCKPT_U32, 1, &n, nullptr, nullptr, weights.data(), 0));
  ASSERT_TRUE(registry.add_tensor("model/new", DLCKPT_F32, 0, nullptr, nullptr, nullptr, &scalar, 0));
  expect_mismatch("'model/new': the checkpoint does not have this tensor");
  ASSERT_TRUE(registry.add_tensor("model/new", DLCKPT_F32, 0, nullptr, nullptr, nullptr, &scalar, DLCKPT_OPTIONAL));
  ASSERT_TRUE((*context)->restore(DLCKPT_LATEST, &note));
  EXPECT_EQ(scalar, 7);
  std::fill(weights.begin(), weights.end(), 7);
  ASSERT_TRUE(registry.add_tensor("model/bias", DLCKPT_U16, 1, &other, nullptr, nullptr, weights.data(), 0));
  expect_mismatch("[100] in the checkpoint, [10] here");
  ASSERT_TRUE(registry.remove("model/bias"));
  ASSERT_TRUE(registry.add_tensor("model/weights", DLCKPT_F32, 1, &n, nullptr, nullptr, floats.data(), 0));
  expect_mismatch("uint32 in the checkpoint, float32 here");
}

// Someone else's files in the directory are left alone and not taken for checkpoints.
TEST_F(CheckpointDamage, ForeignFilesAreLeftAlone) {
  write_file(dir_.path() + "/notes.txt", "mine");
  write_file(dir_.path() + "/step-000000000099", "mine");
  std::filesystem::create_directory(dir_.path() + "/step-000000000099.zzzz");
  write_file(dir_.path() + "/step-000000000099.0000000900000000", "a file, not a directory");
  std::string note;
  auto restored = restore_pattern(dir_.path(), &note, posix_io(), kWeights);
  ASSERT_TRUE(restored);
  EXPECT_EQ(*restored, 2);
  EXPECT_NE(note, "");
  ASSERT_TRUE(save_pattern(dir_.path(), 3, posix_io(), 3, kWeights));
  EXPECT_EQ(read_file(dir_.path() + "/notes.txt"), "mine");
  EXPECT_TRUE(std::filesystem::exists(dir_.path() + "/step-000000000099.zzzz"));
}

TEST(CheckpointRetention, KeepsTheNewestAndTheBranchThatGoesOn) {
  const TempDir dir;
  const auto steps = [&] {
    std::vector<int64_t> found;
    auto names = scan_checkpoints(posix_io(), dir.path());
    if (names)
      for (const CheckpointName& name : *names) found.push_back(name.step);
    return found;
  };
  for (int64_t step = 100; step <= 500; step += 100) ASSERT_TRUE(save_pattern(dir.path(), step, posix_io(), 3, 100));
  EXPECT_EQ(steps(), (std::vector<int64_t>{500, 400, 300}));
  // Back to 300 on purpose, and on from there: the new branch is the newest although its numbers are smaller.
  auto context = open_context(settings_for(dir.path()));
  PatternState state(100);
  ASSERT_TRUE(state.enroll(**context));
  std::string note;
  ASSERT_TRUE((*context)->restore(300, &note));
  state.fill(350);
  ASSERT_TRUE(state.enroll(**context));
  ASSERT_TRUE((*context)->save(350));
  EXPECT_EQ((*context)->latest(), 350);
  EXPECT_EQ(steps(), (std::vector<int64_t>{350, 500, 400}));
  context = Error{};
  auto restored = restore_pattern(dir.path(), nullptr, posix_io(), 100);
  ASSERT_TRUE(restored);
  EXPECT_EQ(*restored, 350);
  EXPECT_EQ(read_file(dir.path() + "/LATEST").substr(0, 17), "step-000000000350");
}

TEST(CheckpointRetention, SavingTheSameStepAgainDoesNothingInOneRunAndReplacesInAnother) {
  const TempDir dir;
  auto context = open_context(settings_for(dir.path()));
  PatternState state(100);
  state.fill(1);
  ASSERT_TRUE(state.enroll(**context));
  ASSERT_TRUE((*context)->save(1));
  ASSERT_TRUE((*context)->save(1));
  EXPECT_EQ(scan_checkpoints(posix_io(), dir.path())->size(), 1U);
  context = Error{};
  ASSERT_TRUE(save_pattern(dir.path(), 1, posix_io(), 3, 100));
  EXPECT_EQ(scan_checkpoints(posix_io(), dir.path())->size(), 2U);
}

// Files written by earlier versions stay readable; see tests/data/checkpoint/README.
TEST(CheckpointGolden, Version1IsReadable) {
  const char* top = std::getenv("top_srcdir");
  const std::string source = std::string(top ? top : ".") + "/tests/data/checkpoint/v1";
  if (!std::filesystem::exists(source)) GTEST_SKIP() << source << " is not there";
  const TempDir dir;
  std::filesystem::copy(source, dir.path(), std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path()))
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all, std::filesystem::perm_options::add);
  auto context = open_context(settings_for(dir.path()));
  ASSERT_TRUE(context) << context.error().text;
  PatternState state(20000), expected(20000);
  state.clear();
  expected.fill(1);
  ASSERT_TRUE(state.enroll(**context));
  float rows[10][3] = {};
  const int64_t shape[] = {10, 3};
  ASSERT_TRUE((*context)->registry().add_tensor("rows", DLCKPT_F32, 2, shape, nullptr, nullptr, rows, 0));
  std::string note;
  auto restored = (*context)->restore(DLCKPT_LATEST, &note);
  ASSERT_TRUE(restored) << restored.error().text;
  EXPECT_EQ(note, "");
  EXPECT_EQ(*restored, 1);
  EXPECT_TRUE(state == expected);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(rows[i / 3][i % 3], static_cast<float>(i));
  ASSERT_TRUE((*context)->restored_blob("data/cursor"));
  EXPECT_EQ(*(*context)->restored_blob("data/cursor"), expected.cursor);
}

// Writes what Version1IsReadable reads, where DL_WRITE_GOLDEN says; for whoever makes version 2.
TEST(CheckpointGolden, DISABLED_Write) {
  const char* target = std::getenv("DL_WRITE_GOLDEN");
  ASSERT_TRUE(target);
  run_ranks(2, [&](int rank) {
    auto context = open_context(settings_for(target, rank, 2, "golden"));
    ASSERT_TRUE(context) << context.error().text;
    PatternState state(20000);
    state.fill(1);
    ASSERT_TRUE(state.enroll(**context));
    float rows[5][3];
    for (int i = 0; i < 15; ++i) rows[i / 3][i % 3] = static_cast<float>(rank * 15 + i);
    const int64_t shape[] = {10, 3}, offset[] = {rank * 5, 0}, extent[] = {5, 3};
    ASSERT_TRUE((*context)->registry().add_tensor("rows", DLCKPT_F32, 2, shape, offset, extent, rows, 0));
    ASSERT_TRUE((*context)->save(1));
  });
}

// Writes tests/fuzz/base, where DL_WRITE_GOLDEN says: as small as a checkpoint of two ranks can be.
TEST(CheckpointGolden, DISABLED_WriteFuzzBase) {
  const char* target = std::getenv("DL_WRITE_GOLDEN");
  ASSERT_TRUE(target);
  run_ranks(2, [&](int rank) {
    auto context = open_context(settings_for(target, rank, 2, "fuzz"));
    ASSERT_TRUE(context) << context.error().text;
    float rows[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    int64_t counter = 7;
    const int64_t shape[] = {6, 2}, offset[] = {rank * 3, 0}, extent[] = {3, 2};
    Registry& registry = (*context)->registry();
    ASSERT_TRUE(registry.add_tensor("w", DLCKPT_F32, 2, shape, offset, extent, rows, 0));
    ASSERT_TRUE(registry.add_tensor("n", DLCKPT_I64, 0, nullptr, nullptr, nullptr, &counter, DLCKPT_REPLICATED));
    ASSERT_TRUE(registry.add_blob("rng", "0123456789", 10, true));
    ASSERT_TRUE((*context)->save(1));
  });
}

}  // namespace
}  // namespace dl::ckpt::test
