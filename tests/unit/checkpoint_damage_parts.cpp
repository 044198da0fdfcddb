// SPDX-License-Identifier: Apache-2.0
// Damage to checkpoints of more than one kind of file: those that share a file with an earlier one (an origin, a hard
// link), and those with files of the program (members). Always noticed by dlckpt verify's and the loader's eyes, never
// loaded, never a crash; the loader falls back to the newest that is whole, and says so.
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWeights = 70000;  // 280 kB: blocks and, where they do not change, a file of their own

// What may become of a file that stays a file: called with a path, it damages it in place.
struct Damage {
  std::string name;
  std::function<std::string(std::string)> make;
};
std::vector<Damage> damages(size_t size) {
  std::vector<Damage> all;
  std::mt19937 random(static_cast<unsigned>(size));
  for (int i = 0; i < 25; ++i) {
    const size_t at = random() % size;
    const char bit = static_cast<char>(1 << (random() % 8));
    all.push_back({"a bit of byte " + std::to_string(at), [=](std::string bytes) {
                     bytes[at] = static_cast<char>(bytes[at] ^ bit);
                     return bytes;
                   }});
  }
  for (const size_t length : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size / 2, size - 1})
    if (length < size)
      all.push_back(
          {"cut to " + std::to_string(length), [=](const std::string& bytes) { return bytes.substr(0, length); }});
  for (const size_t more : {size_t{1}, size_t{4096}})
    all.push_back({"longer by " + std::to_string(more),
                   [=](const std::string& bytes) { return bytes + std::string(more, '\0'); }});
  return all;
}

// Damages a file, hands over, and mends it. In place, so that all its names see it.
void with_each_damage(const std::string& path, const std::function<void()>& look) {
  const std::string good = read_file(path);
  for (const Damage& damage : damages(good.size())) {
    SCOPED_TRACE(path.substr(path.rfind('/') + 1) + ": " + damage.name);
    write_file(path, damage.make(good));
    look();
    if (testing::Test::HasFailure()) return;
  }
  write_file(path, good);
}

bool verifies(const std::string& dir, const CheckpointName& name) {
  return static_cast<bool>(verify_checkpoint(posix_io(), dir, name));
}

// A FIFO in the place of each file that is read: nothing waits for whoever might write to it.
TEST(CheckpointFifo, IsNoFileAndIsNotWaitedFor) {
  const TempDir dir;
  const auto replace = [&](const std::string& path) {
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0) << path;
  };
  PatternState state(kWeights);
  const auto save = [&](int64_t step) {
    auto context = open_context(settings_for(dir.path()));
    ASSERT_TRUE(context) << context.error().text;
    state.fill(step);
    ASSERT_TRUE(state.enroll(**context));
    const Status saved = (*context)->save(step, DLCKPT_SYNC);
    ASSERT_TRUE(saved) << saved.error().text;
  };
  alarm(100);  // a wait ends the test
  save(1);
  replace(dir.path() + "/SAVES.jsonl");
  save(2);
  replace(dir.path() + "/SAVES.jsonl");
  save(3);
  const auto names = scan_checkpoints(posix_io(), dir.path());
  ASSERT_TRUE(names);
  ASSERT_EQ(names->size(), 3U);
  replace(checkpoint_path(dir.path(), (*names)[0]) + "/MANIFEST.json");
  replace(checkpoint_path(dir.path(), (*names)[1]) + "/r00000.h5");
  {
    auto context = open_context(settings_for(dir.path()));
    ASSERT_TRUE(context) << context.error().text;
    state.clear();
    ASSERT_TRUE(state.enroll(**context));
    std::string note;
    const auto restored = (*context)->restore(DLCKPT_LATEST, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(*restored, 1);
    EXPECT_NE(note.find("not a regular file"), std::string::npos) << note;
  }
  replace(dir.path() + "/LEASE");
  auto context = open_context(settings_for(dir.path()));
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code, Errc::kBusy);
  EXPECT_NE(context.error().text.find("not a regular file"), std::string::npos) << context.error().text;
  alarm(0);
}

// Train steps 1 and 2 with weights of their own, 3 with a link to those of 2.
class CheckpointDamageLinks : public testing::Test {
 protected:
  void SetUp() override {
    save({1});
    save({2, 3});  // a run that does not know of the other's
    auto names = scan_checkpoints(posix_io(), dir_.path());
    ASSERT_TRUE(names && names->size() == 3);
    names_.assign(names->rbegin(), names->rend());
    ASSERT_TRUE(verifies(dir_.path(), names_[2]));
    ASSERT_EQ(fs::hard_link_count(path(3, kWeightsFile)), 2U);
    expect_restored(3);
  }
  // In one run.
  void save(const std::vector<int64_t>& steps) {
    auto context = open_context(settings_for(dir_.path()));
    ASSERT_TRUE(context) << context.error().text;
    for (const int64_t step : steps) {
      PatternState state = expected(step);
      ASSERT_TRUE(state.enroll(**context));
      ASSERT_TRUE(state.enroll_weights((*context)->registry(), DLCKPT_FROZEN));
      auto saved = (*context)->save(step);
      ASSERT_TRUE(saved) << saved.error().text;
    }
  }
  static PatternState expected(int64_t step) {
    PatternState state(kWeights);
    state.fill(step, step == 3 ? 2 : step);
    return state;
  }
  std::string path(int64_t step, const std::string& file) const {
    return checkpoint_path(dir_.path(), names_[static_cast<size_t>(step - 1)]) + "/" + file;
  }
  bool whole(int64_t step) const { return verifies(dir_.path(), names_[static_cast<size_t>(step - 1)]); }
  // The loader takes this train step, all of it, and names those that it passed over.
  void expect_restored(int64_t step) {
    auto context = open_context(settings_for(dir_.path()));
    ASSERT_TRUE(context) << context.error().text;
    PatternState state(kWeights);
    state.clear();
    ASSERT_TRUE(state.enroll(**context));
    std::string note;
    auto restored = (*context)->restore(DLCKPT_LATEST, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(*restored, step);
    EXPECT_TRUE(state == expected(step));
    for (int64_t newer = step + 1; newer <= 3; ++newer)
      EXPECT_NE(note.find("passed over " + format_checkpoint_name(names_[static_cast<size_t>(newer - 1)])),
                std::string::npos)
          << note;
  }
  // Puts other bytes under a name, which then is no link any more.
  static void replace(const std::string& path, const std::string& bytes) {
    fs::remove(path);
    write_file(path, bytes);
  }

  static constexpr const char* kWeightsFile = "r00000.f1.h5";
  static constexpr const char* kOtherFile = "r00000.h5";
  TempDir dir_;
  std::vector<CheckpointName> names_;  // by train step
};

TEST_F(CheckpointDamageLinks, OfTheirOwnFilesIsNoticedAndTheOriginStaysGood) {
  for (const std::string file : {"MANIFEST.json", kOtherFile}) {
    int round = 0;
    with_each_damage(path(3, file), [&] {
      EXPECT_FALSE(whole(3));
      EXPECT_TRUE(whole(2));
      // The loader need not read every byte of a data file; what it gives is compared bit for bit.
      if (file == "MANIFEST.json" && ++round % 5 == 0) expect_restored(2);
    });
    EXPECT_TRUE(whole(3));
  }
}

TEST_F(CheckpointDamageLinks, OfTheSharedFileIsNoticedInBoth) {
  with_each_damage(path(3, kWeightsFile), [&] {
    EXPECT_FALSE(whole(3));
    EXPECT_FALSE(whole(2));
    EXPECT_TRUE(whole(1));
  });
  EXPECT_TRUE(whole(3));
  const std::string good = read_file(path(3, kWeightsFile));
  std::string bad = good;
  bad[60000] = static_cast<char>(bad[60000] ^ 1);  // within the weights
  write_file(path(2, kWeightsFile), bad);
  expect_restored(1);
  write_file(path(2, kWeightsFile), good.substr(0, good.size() - 1));
  expect_restored(1);
}

TEST_F(CheckpointDamageLinks, WhereTheNameIsGoneOnlyThatOneIsLost) {
  fs::remove(path(3, kWeightsFile));
  EXPECT_FALSE(whole(3));
  EXPECT_TRUE(whole(2));
  expect_restored(2);
  fs::create_directory(path(3, kWeightsFile));
  EXPECT_FALSE(whole(3));
  expect_restored(2);
  fs::remove(path(3, kWeightsFile));
  fs::create_hard_link(path(2, kWeightsFile), path(3, kWeightsFile));
  fs::remove_all(checkpoint_path(dir_.path(), names_[1]));  // the origin is retired
  EXPECT_TRUE(whole(3));
  expect_restored(3);
}

TEST_F(CheckpointDamageLinks, FilesSwappedOrOfAnotherSave) {
  const std::string shared = read_file(path(3, kWeightsFile)), own = read_file(path(3, kOtherFile));
  const std::string manifest = read_file(path(3, "MANIFEST.json"));
  // The weights of train step 1: of the same size, whole in themselves, and not what the manifest names.
  replace(path(3, kWeightsFile), read_file(path(1, kWeightsFile)));
  EXPECT_FALSE(whole(3));
  EXPECT_TRUE(whole(2));
  expect_restored(2);
  replace(path(3, kWeightsFile), own);
  replace(path(3, kOtherFile), shared);
  EXPECT_FALSE(whole(3));
  expect_restored(2);
  replace(path(3, kWeightsFile), shared);
  replace(path(3, kOtherFile), read_file(path(2, kOtherFile)));
  EXPECT_FALSE(whole(3));
  expect_restored(2);
  replace(path(3, kOtherFile), own);
  replace(path(3, "MANIFEST.json"), read_file(path(2, "MANIFEST.json")));
  EXPECT_FALSE(whole(3));
  expect_restored(2);
  replace(path(3, "MANIFEST.json"), manifest);
  EXPECT_TRUE(whole(3)) << "a copy in the place of the link is as good";
  expect_restored(3);
}

TEST_F(CheckpointDamageLinks, AManifestThatNamesAnotherOrigin) {
  auto manifest = load_manifest(posix_io(), dir_.path(), names_[2]);
  ASSERT_TRUE(manifest);
  ASSERT_TRUE(manifest->files[1].origin);
  EXPECT_EQ(manifest->files[1].origin->step, 2);
  for (const std::optional<CheckpointName>& origin :
       {std::optional<CheckpointName>(), std::optional<CheckpointName>(names_[0]),
        std::optional<CheckpointName>(names_[2]),
        std::optional<CheckpointName>(CheckpointName{names_[1].step + 1, names_[1].save_id})}) {
    manifest->files[1].origin = origin;
    write_file(path(3, "MANIFEST.json"), format_manifest(*manifest));
    EXPECT_FALSE(whole(3));
    expect_restored(2);
  }
}

// Train steps 1 and 2 with files of the program.
class CheckpointDamageMembers : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(temp_.path() + "/files");
    for (int64_t step = 1; step <= 2; ++step) {
      write_file(file("model"), member(step, 9));
      write_file(file("own"), member(step, 0));
      auto context = open();
      ASSERT_TRUE(context);
      state_.fill(step);
      ASSERT_TRUE(state_.enroll(*context));
      auto saved = context->save(step);
      ASSERT_TRUE(saved) << saved.error().text;
    }
    auto names = scan_checkpoints(posix_io(), dir());
    ASSERT_TRUE(names && names->size() == 2);
    names_ = *names;
    auto manifest = load_manifest(posix_io(), dir(), names_[0]);
    ASSERT_TRUE(manifest && manifest->members.size() == 2);
    for (const MemberRecord& record : manifest->members) stored_.push_back(record.file);
  }
  std::string dir() const { return temp_.path() + "/ck"; }
  std::string file(const std::string& name) const { return temp_.path() + "/files/" + name; }
  std::string path(const CheckpointName& name, const std::string& file) const {
    return checkpoint_path(dir(), name) + "/" + file;
  }
  static std::string member(int64_t step, int which) {
    std::string text(20000, '\0');
    for (size_t i = 0; i < text.size(); ++i)
      text[i] = static_cast<char>((i + static_cast<size_t>(step * 7 + which)) / 3);
    return text;
  }
  std::unique_ptr<Context> open() {
    auto context = open_context(settings_for(dir()));
    EXPECT_TRUE(context) << context.error().text;
    if (!context) return nullptr;
    EXPECT_TRUE((*context)->registry().add_member("model", file("model").c_str(), false));
    EXPECT_TRUE((*context)->registry().add_member("own", file("own").c_str(), true));
    return *std::move(context);
  }
  // Tensors and files are those of `step`, or with step 0 nothing is put back.
  void expect_restored(int64_t step) {
    write_file(file("model"), "garbage");
    write_file(file("own"), "garbage");
    auto context = open();
    ASSERT_TRUE(context);
    state_.clear();
    ASSERT_TRUE(state_.enroll(*context));
    std::string note;
    auto restored = context->restore(DLCKPT_LATEST, &note);
    EXPECT_EQ(read_file(file("model")), step ? member(step, 9) : "garbage");
    EXPECT_EQ(read_file(file("own")), step ? member(step, 0) : "garbage");
    EXPECT_EQ(std::distance(fs::directory_iterator(temp_.path() + "/files"), fs::directory_iterator()), 2);
    if (step == 0) {
      ASSERT_FALSE(restored);
      EXPECT_EQ(restored.error().code, Errc::kCorrupt) << restored.error().text;
      return;
    }
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(*restored, step);
    PatternState expected(kWeights);
    expected.fill(step);
    EXPECT_TRUE(state_ == expected);
    EXPECT_EQ(note.find("passed over " + format_checkpoint_name(names_[0])) != std::string::npos, step == 1) << note;
  }

  TempDir temp_;
  PatternState state_{kWeights};
  std::vector<CheckpointName> names_;  // newest first
  std::vector<std::string> stored_;
};

TEST_F(CheckpointDamageMembers, IsNoticedAndTheOlderOneIsPutBackWhole) {
  expect_restored(2);
  for (const std::string& name : stored_) {
    int round = 0;
    with_each_damage(path(names_[0], name), [&] {
      EXPECT_FALSE(verifies(dir(), names_[0]));
      if (++round % 3 == 0) expect_restored(1);
    });
    const std::string good = read_file(path(names_[0], name));
    fs::remove(path(names_[0], name));
    EXPECT_FALSE(verifies(dir(), names_[0]));
    expect_restored(1);
    fs::create_directory(path(names_[0], name));
    EXPECT_FALSE(verifies(dir(), names_[0]));
    expect_restored(1);
    fs::remove(path(names_[0], name));
    write_file(path(names_[0], name), good);
    EXPECT_TRUE(verifies(dir(), names_[0]));
  }
  expect_restored(2);
}

TEST_F(CheckpointDamageMembers, SwappedOrOfAnotherSave) {
  const std::string first = read_file(path(names_[0], stored_[0])), second = read_file(path(names_[0], stored_[1]));
  write_file(path(names_[0], stored_[0]), second);
  write_file(path(names_[0], stored_[1]), first);
  EXPECT_FALSE(verifies(dir(), names_[0]));
  expect_restored(1);
  write_file(path(names_[0], stored_[0]), first);
  write_file(path(names_[0], stored_[1]), read_file(path(names_[1], stored_[1])));
  EXPECT_FALSE(verifies(dir(), names_[0]));
  expect_restored(1);
}

TEST_F(CheckpointDamageMembers, WhereNoneIsWholeNothingIsPutBack) {
  for (const CheckpointName& name : names_) {
    std::string bytes = read_file(path(name, stored_[0]));
    bytes[100] = static_cast<char>(bytes[100] ^ 1);
    write_file(path(name, stored_[0]), bytes);
  }
  expect_restored(0);
  // A train step that was asked for is not replaced by another.
  auto context = open();
  ASSERT_TRUE(context);
  ASSERT_TRUE(state_.enroll(*context));
  std::string note;
  auto restored = context->restore(2, &note);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::kCorrupt);
}

// Writes what tests/cli/dlckpt_parts.bats looks at into the directory in DL_WRITE_PARTS: train steps 1 to 3, which
// share the file with the weights, have a file of the program called "notes", and the metric "loss" of 0.5, 0.25 and
// 0.75.
TEST(CheckpointParts, DISABLED_Write) {
  const char* target = std::getenv("DL_WRITE_PARTS");
  ASSERT_TRUE(target);
  const std::string notes = std::string(target) + ".notes";
  auto context = open_context(settings_for(target));
  ASSERT_TRUE(context) << context.error().text;
  Registry& registry = (*context)->registry();
  ASSERT_TRUE(registry.add_member("notes", notes.c_str(), false));
  for (int64_t step = 1; step <= 3; ++step) {
    PatternState state(kWeights);
    state.fill(step, 1);
    ASSERT_TRUE(state.enroll(**context));
    ASSERT_TRUE(state.enroll_weights(registry, DLCKPT_FROZEN));
    ASSERT_TRUE((*context)->set_metric("loss", step == 1 ? 0.5 : step == 2 ? 0.25 : 0.75));
    write_file(notes, "notes of train step " + std::to_string(step) + "\n");
    auto saved = (*context)->save(step);
    ASSERT_TRUE(saved) << saved.error().text;
  }
}

}  // namespace
}  // namespace dl::ckpt::test
