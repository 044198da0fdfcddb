// SPDX-License-Identifier: Apache-2.0
// What does not change from save to save is stored once: when it is recognised, what is on disk, and that nothing is
// lost by it when somebody changes, removes or cannot link things.
#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <numeric>

#include "checkpoint/engine/unchanged.h"
#include "tests/unit/checkpoint_faulty_io.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr size_t kBase = 200000, kAdapter = 30000;  // elements of 4 bytes

// A large base that stays and an adapter that is trained.
struct Finetuning {
  std::vector<uint32_t> base = std::vector<uint32_t>(kBase), table = std::vector<uint32_t>(kBase / 2);
  std::vector<uint32_t> adapter = std::vector<uint32_t>(kAdapter);
  Finetuning() {
    std::iota(base.begin(), base.end(), 7U);
    std::iota(table.begin(), table.end(), 1000000U);
  }
  void train(int64_t step) { std::iota(adapter.begin(), adapter.end(), static_cast<uint32_t>(step * 1000)); }
  void clear() {
    for (auto* part : {&base, &table, &adapter}) std::fill(part->begin(), part->end(), 0xDEADU);
  }
  Status enroll(Context& context, unsigned flags_of_base) {
    const auto add = [&](const char* path, std::vector<uint32_t>& data, unsigned flags) {
      const auto n = static_cast<int64_t>(data.size());
      return context.registry().add_tensor(path, DLCKPT_U32, 1, &n, nullptr, nullptr, data.data(),
                                           flags | DLCKPT_REPLICATED);
    };
    DL_TRY(add("base/w", base, flags_of_base));
    DL_TRY(add("base/table", table, flags_of_base));
    return add("adapter/w", adapter, 0);
  }
  friend bool operator==(const Finetuning& a, const Finetuning& b) {
    return a.base == b.base && a.table == b.table && a.adapter == b.adapter;
  }
};

// 0 if there is no such file.
ino_t inode(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

std::string kept_path(const std::string& dir) {
  return newest_path(dir) + "/r00000.f1.h5";
}

Settings reusing(const std::string& dir, Settings::Mode mode = Settings::kSync) {
  Settings settings = settings_for(dir);
  settings.mode = mode;
  settings.keep = 10;
  return settings;
}

// The newest checkpoint verifies and holds this.
void expect_newest(const std::string& dir, const Finetuning& expected, Io& io = posix_io()) {
  const auto names = scan_checkpoints(io, dir);
  ASSERT_TRUE(names && !names->empty());
  auto verified = verify_checkpoint(io, dir, names->front());
  EXPECT_TRUE(verified) << verified.error().text;
  std::filesystem::remove(dir + "/LEASE");
  auto context = open_context(settings_for(dir), io);
  ASSERT_TRUE(context) << context.error().text;
  Finetuning state;
  state.clear();
  ASSERT_TRUE(state.enroll(**context, 0));
  std::string note;
  auto restored = (*context)->restore(DLCKPT_LATEST, &note);
  ASSERT_TRUE(restored) << restored.error().text;
  EXPECT_EQ(note, "");
  EXPECT_TRUE(state == expected);
}

class Unchanged : public ::testing::TestWithParam<Settings::Mode> {};

TEST_P(Unchanged, FrozenTensorsAreWrittenOnce) {
  const TempDir dir;
  Finetuning state;
  {
    auto context = *open_context(reusing(dir.path(), GetParam()));
    ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
    ino_t first = 0;
    for (int64_t step = 1; step <= 4; ++step) {
      context->before_mutation();
      state.train(step);
      ASSERT_TRUE(context->save(step));
      ASSERT_TRUE(context->wait(-1, nullptr));
      const SaveStats stats = context->stats();
      EXPECT_EQ(stats.reused_bytes, step == 1 ? 0 : (kBase + kBase / 2) * 4);
      EXPECT_EQ(stats.bytes, (kBase + kBase / 2 + kAdapter) * 4);
      EXPECT_LT(stats.written_bytes, step == 1 ? 1500000U : 200000U);
      if (step == 1) first = inode(kept_path(dir.path()));
      EXPECT_NE(first, 0U);
      EXPECT_EQ(inode(kept_path(dir.path())), first);
    }
    const auto names = *scan_checkpoints(posix_io(), dir.path());
    for (const CheckpointName& name : names) {
      const auto manifest = verify_checkpoint(posix_io(), dir.path(), name);
      ASSERT_TRUE(manifest) << manifest.error().text;
      ASSERT_EQ(manifest->files.size(), 2U);
      ASSERT_EQ(manifest->files[1].origin.has_value(), name.step != 1);
      if (name.step != 1) {
        EXPECT_EQ(manifest->files[1].origin->save_id, names.back().save_id);
      }
    }
  }
  expect_newest(dir.path(), state);
}

TEST_P(Unchanged, WhatStaysTheSameIsFoundWithoutAHint) {
  const TempDir dir;
  Finetuning state;
  {
    auto context = *open_context(reusing(dir.path(), GetParam()));
    ASSERT_TRUE(state.enroll(*context, 0));
    std::vector<uint64_t> reused;
    for (int64_t step = 1; step <= 6; ++step) {
      context->before_mutation();
      state.train(step);
      ASSERT_TRUE(context->save(step));
      ASSERT_TRUE(context->wait(-1, nullptr));
      reused.push_back(context->stats().reused_bytes);
    }
    const uint64_t all = (kBase + kBase / 2) * 4;
    EXPECT_EQ(reused, (std::vector<uint64_t>{0, 0, 0, 0, all, all}));
  }
  expect_newest(dir.path(), state);
}

TEST_P(Unchanged, WhatChangesAfterAllIsSaved) {
  const TempDir dir;
  Finetuning state;
  {
    auto context = *open_context(reusing(dir.path(), GetParam()));
    ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
    for (int64_t step = 1; step <= 5; ++step) {
      context->before_mutation();
      state.train(step);
      if (step >= 3) state.table[kBase / 2 - 1] += 1;  // one element
      ASSERT_TRUE(context->save(step));
      ASSERT_TRUE(context->wait(-1, nullptr));
      EXPECT_EQ(context->stats().reused_bytes, step == 1 ? 0 : step == 2 ? (kBase + kBase / 2) * 4 : kBase * 4);
      const auto verified =
          verify_checkpoint(posix_io(), dir.path(), scan_checkpoints(posix_io(), dir.path())->front());
      EXPECT_TRUE(verified) << verified.error().text;
    }
  }
  expect_newest(dir.path(), state);
}

INSTANTIATE_TEST_SUITE_P(Modes, Unchanged, ::testing::Values(Settings::kSync, Settings::kAsync, Settings::kLazy),
                         [](const auto& mode) {
                           return mode.param == Settings::kSync    ? "Sync"
                                  : mode.param == Settings::kAsync ? "Async"
                                                                   : "Lazy";
                         });

TEST(CheckpointUnchanged, TheSharedFileOutlivesTheCheckpointThatWroteIt) {
  const TempDir dir;
  Finetuning state;
  {
    Settings settings = reusing(dir.path());
    settings.keep = 1;
    auto context = *open_context(settings);
    ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
    for (int64_t step = 1; step <= 6; ++step) {
      state.train(step);
      ASSERT_TRUE(context->save(step));
      EXPECT_EQ(scan_checkpoints(posix_io(), dir.path())->size(), 1U);
      const auto verified =
          verify_checkpoint(posix_io(), dir.path(), scan_checkpoints(posix_io(), dir.path())->front());
      ASSERT_TRUE(verified) << verified.error().text;
      EXPECT_EQ(context->stats().reused_bytes > 0, step > 1);
    }
  }
  expect_newest(dir.path(), state);
}

TEST(CheckpointUnchanged, WhenAllCheckpointsWereRemovedByHandTheNextIsWholeAllTheSame) {
  const TempDir dir;
  Finetuning state;
  {
    auto context = *open_context(reusing(dir.path()));
    ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
    for (int64_t step = 1; step <= 2; ++step) {
      state.train(step);
      ASSERT_TRUE(context->save(step));
    }
    const auto names = scan_checkpoints(posix_io(), dir.path());
    for (const CheckpointName& name : *names) std::filesystem::remove_all(checkpoint_path(dir.path(), name));
    state.train(3);
    ASSERT_TRUE(context->save(3));
    state.train(4);
    ASSERT_TRUE(context->save(4));  // shares with that of 3
    EXPECT_EQ(scan_checkpoints(posix_io(), dir.path())->size(), 2U);
  }
  expect_newest(dir.path(), state);
}

TEST(CheckpointUnchanged, AFileThatSomebodyPutInItsPlaceIsNotTaken) {
  const TempDir dir;
  Finetuning state;
  {
    auto context = *open_context(reusing(dir.path()));
    ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
    state.train(1);
    ASSERT_TRUE(context->save(1));
    const std::string path = kept_path(dir.path());
    const std::string bytes = read_file(path);
    std::filesystem::remove(path);
    write_file(path, std::string(bytes.size(), 'x'));
    state.train(2);
    ASSERT_TRUE(context->save(2));
  }
  expect_newest(dir.path(), state);
}

// A file system without hard links for data.
class LinklessIo final : public FaultyIo {
 public:
  LinklessIo() : FaultyIo(kErrno, INT32_MAX) {}
  int link(const std::string& from, const std::string& to) override {
    return to.find(".h5") == std::string::npos ? FaultyIo::link(from, to) : -EPERM;
  }
};

TEST(CheckpointUnchanged, WithoutHardLinksItIsCopied) {
  const TempDir dir;
  LinklessIo io;
  Finetuning state;
  {
    auto context = *open_context(reusing(dir.path()), io);
    ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
    for (int64_t step = 1; step <= 3; ++step) {
      state.train(step);
      ASSERT_TRUE(context->save(step));
      struct stat info {};
      ASSERT_EQ(::stat(kept_path(dir.path()).c_str(), &info), 0);
      EXPECT_EQ(info.st_nlink, 1U);
    }
  }
  expect_newest(dir.path(), state);
}

TEST(CheckpointUnchanged, ARestartGoesOnSharing) {
  const TempDir dir;
  Finetuning state;
  ino_t first = 0;
  for (int64_t step = 1; step <= 3; ++step) {
    auto context = *open_context(reusing(dir.path()));
    ASSERT_TRUE(state.enroll(*context, 0));
    std::string note;
    if (step > 1) {
      const Finetuning before = state;
      state.clear();
      ASSERT_TRUE(context->restore(DLCKPT_LATEST, &note));
      ASSERT_TRUE(state == before);
    } else {
      ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
    }
    state.train(step);
    ASSERT_TRUE(context->save(step));
    if (step == 1) first = inode(kept_path(dir.path()));
    EXPECT_EQ(inode(kept_path(dir.path())), first);
    EXPECT_NE(first, 0U);
  }
  expect_newest(dir.path(), state);
}

TEST(CheckpointUnchanged, ItCanBeTurnedOff) {
  const TempDir dir;
  Finetuning state;
  Settings settings = reusing(dir.path());
  settings.reuse = false;
  auto context = *open_context(settings);
  ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_TRUE(context->save(step));
    EXPECT_EQ(context->stats().reused_bytes, 0U);
    EXPECT_EQ(inode(kept_path(dir.path())), 0U);
  }
}

TEST(CheckpointUnchanged, MemoryWithGapsIsComparedAsItIsStored) {
  const TempDir dir;
  std::vector<uint32_t> matrix(512 * 1024);
  std::iota(matrix.begin(), matrix.end(), 3U);
  const int64_t shape[] = {512, 512}, strides[] = {1024 * 4, 4};  // the left half
  const auto enroll = [&](Context& context) {
    return context.registry().add_tensor("half", DLCKPT_U32, 2, shape, nullptr, nullptr, matrix.data(),
                                         DLCKPT_REPLICATED | DLCKPT_FROZEN, strides);
  };
  {
    auto context = *open_context(reusing(dir.path()));
    ASSERT_TRUE(enroll(*context));
    ASSERT_TRUE(context->save(1));
    for (size_t row = 0; row < 512; ++row) matrix[row * 1024 + 600] = 0;  // in the gaps
    ASSERT_TRUE(context->save(2));
    EXPECT_EQ(context->stats().reused_bytes, 512 * 512 * 4U);
    matrix[511 * 1024 + 511] = 0;
    ASSERT_TRUE(context->save(3));
    EXPECT_EQ(context->stats().reused_bytes, 0U);
  }
  const std::vector<uint32_t> expected = matrix;
  std::fill(matrix.begin(), matrix.end(), 0xDEADU);
  auto context = *open_context(reusing(dir.path()));
  ASSERT_TRUE(enroll(*context));
  std::string note;
  ASSERT_TRUE(context->restore(DLCKPT_LATEST, &note));
  for (size_t row = 0; row < 512; ++row)
    ASSERT_TRUE(std::equal(&matrix[row * 1024], &matrix[row * 1024 + 512], &expected[row * 1024]));
}

// Ranks that each have a part of the base; then as many as others restore it, and go on.
TEST(CheckpointUnchanged, EachRankSharesItsOwnAndOtherRanksMayGoOn) {
  const TempDir dir;
  const auto n = static_cast<int64_t>(kBase);
  const auto run = [&](int world, int64_t from, int64_t to) {
    run_ranks(world, [&](int rank) {
      Settings settings = settings_for(dir.path(), rank, world, "run" + std::to_string(from));
      settings.keep = 10;
      auto context = *open_context(settings);
      const int64_t begin = n * rank / world, extent = n * (rank + 1) / world - begin;
      std::vector<uint32_t> base(static_cast<size_t>(extent)), adapter(kAdapter);
      const auto length = static_cast<int64_t>(kAdapter);
      ASSERT_TRUE(
          context->registry().add_tensor("base", DLCKPT_U32, 1, &n, &begin, &extent, base.data(), DLCKPT_FROZEN));
      ASSERT_TRUE(context->registry().add_tensor("adapter", DLCKPT_U32, 1, &length, nullptr, nullptr, adapter.data(),
                                                 DLCKPT_REPLICATED));
      std::string note;
      if (from > 1) {
        ASSERT_TRUE(context->restore(DLCKPT_LATEST, &note));
        EXPECT_EQ(adapter[5], from - 1);
        for (size_t i = 0; i < base.size(); ++i) ASSERT_EQ(base[i], static_cast<uint32_t>(begin) + i);
      } else {
        std::iota(base.begin(), base.end(), static_cast<uint32_t>(begin));
      }
      for (int64_t step = from; step <= to; ++step) {
        std::fill(adapter.begin(), adapter.end(), static_cast<uint32_t>(step));
        const auto saved = context->save(step);
        ASSERT_TRUE(saved) << saved.error().text;
        if (step > from) {
          EXPECT_EQ(context->stats().reused_bytes, static_cast<uint64_t>(extent) * 4);
        }
      }
    });
  };
  run(3, 1, 3);
  run(3, 4, 5);
  run(2, 6, 8);
  run(1, 9, 10);
  const auto names = scan_checkpoints(posix_io(), dir.path());
  ASSERT_EQ(names->size(), 10U);
  for (const CheckpointName& name : *names) {
    const auto verified = verify_checkpoint(posix_io(), dir.path(), name);
    EXPECT_TRUE(verified) << verified.error().text;
  }
}

TEST(CheckpointUnchanged, ANodeLocalLevelSharesAtBothLevels) {
  const TempDir dir, local;
  Finetuning state;
  {
    Settings settings = reusing(dir.path());
    settings.local_dir = local.path();
    settings.node = "n1";
    auto context = *open_context(settings);
    ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
    ino_t first = 0;
    for (int64_t step = 1; step <= 3; ++step) {
      state.train(step);
      const auto saved = context->save(step);
      ASSERT_TRUE(saved) << saved.error().text;
      if (step == 1) first = inode(kept_path(dir.path()));
      EXPECT_NE(first, 0U);
      EXPECT_EQ(inode(kept_path(dir.path())), first);
      EXPECT_EQ(context->stats().reused_bytes > 0, step > 1);
    }
  }
  expect_newest(dir.path(), state);
}

// LOCAL/dlckpt-<hash>/<node>/r<rank>, where only one job has saved.
std::string directory_of_rank(const std::string& local, const std::string& node, int rank) {
  const auto job = std::filesystem::directory_iterator(local)->path();
  return (job / node / ("r0000" + std::to_string(rank))).string();
}

TEST(CheckpointUnchanged, ThePartnerGetsItOnce) {
  const TempDir dir, local;
  run_ranks(2, [&](int rank) {
    Settings settings = settings_for(dir.path(), rank, 2);
    settings.local_dir = local.path();
    settings.node = rank == 0 ? "n1" : "n2";
    settings.partner = true;
    auto context = *open_context(settings);
    std::vector<uint32_t> base(kBase);
    std::iota(base.begin(), base.end(), static_cast<uint32_t>(rank));
    int64_t step = 0;
    const auto n = static_cast<int64_t>(kBase);
    const int64_t shape[] = {2, n}, offset[] = {rank, 0}, extent[] = {1, n};
    ASSERT_TRUE(
        context->registry().add_tensor("base", DLCKPT_U32, 2, shape, offset, extent, base.data(), DLCKPT_FROZEN));
    ASSERT_TRUE(
        context->registry().add_tensor("step", DLCKPT_I64, 0, nullptr, nullptr, nullptr, &step, DLCKPT_REPLICATED));
    ino_t first = 0;
    for (step = 1; step <= 3; ++step) {
      const auto saved = context->save(step);
      ASSERT_TRUE(saved) << saved.error().text;
      // What this rank keeps for the other one.
      const std::string other = newest_path(directory_of_rank(local.path(), settings.node, rank)) +
                                (rank == 0 ? "/r00001.f1.h5" : "/r00000.f1.h5");
      if (step == 1) first = inode(other);
      EXPECT_NE(first, 0U);
      EXPECT_EQ(inode(other), first);
    }
  });
}

TEST(CheckpointUnchanged, PeopleWithHdf5FindEverythingInTheMainFile) {
  const TempDir dir;
  Finetuning state;
  auto context = *open_context(reusing(dir.path()));
  ASSERT_TRUE(state.enroll(*context, DLCKPT_FROZEN));
  ASSERT_TRUE(context->save(1));
  ASSERT_TRUE(context->save(2));
  const hid_t file = H5Fopen((newest_path(dir.path()) + "/r00000.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const hid_t dataset = H5Dopen2(file, "/base/w/s0", H5P_DEFAULT);
  ASSERT_GE(dataset, 0);
  std::vector<uint32_t> found(kBase);
  EXPECT_GE(H5Dread(dataset, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, found.data()), 0);
  EXPECT_EQ(found, state.base);
  H5Dclose(dataset);
  H5Fclose(file);
}

// ---- the decision

WriteItem item(const std::string& path, uint64_t bytes, bool frozen = false) {
  WriteItem made;
  const Dims shape{static_cast<int64_t>(bytes)};
  made.dataset = std::make_shared<const LayoutItem>(
      LayoutItem{path, path, find_dtype(DLCKPT_U8), shape, whole(shape), false, false});
  made.frozen = frozen;
  return made;
}

TEST(ChangeHistory, ATensorSettlesAfterTwoRepetitionsAndLaterAfterASurprise) {
  ChangeHistory history;
  const WriteItem plain = item("a", 100000), hinted = item("b", 100000, true), small = item("c", 65535, true);
  EXPECT_FALSE(history.settled(plain));
  EXPECT_TRUE(history.settled(hinted));
  EXPECT_FALSE(history.settled(small));
  history.saved("a", {1, 1});
  history.saved("a", {1, 1});
  EXPECT_FALSE(history.settled(plain));
  history.saved("a", {1, 1});
  EXPECT_TRUE(history.settled(plain));
  history.surprised("a");
  history.surprised("b");
  EXPECT_FALSE(history.settled(plain));
  EXPECT_FALSE(history.settled(hinted));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(history.settled(plain));
    history.saved("a", {2, 2});
  }
  EXPECT_TRUE(history.settled(plain));
  history.saved("a", {3, 3});
  EXPECT_FALSE(history.settled(plain));
}

TEST(ChooseHomes, WaitsUntilWaitingHasCostAsMuchAsWritingTheFileAnew) {
  const ChangeHistory history;
  const std::vector<WriteItem> items{item("kept", 3 << 20, true), item("new", 1 << 20, true), item("other", 1 << 20)};
  const std::vector<size_t> unchanged{0, kNotKept, kNotKept};
  uint64_t waited = 0;
  for (int save = 0; save < 3; ++save)
    EXPECT_EQ(choose_homes(items, unchanged, 3 << 20, history, &waited),
              (std::vector<Home>{Home::kKept, Home::kMain, Home::kMain}));
  EXPECT_EQ(choose_homes(items, unchanged, 3 << 20, history, &waited),
            (std::vector<Home>{Home::kNew, Home::kNew, Home::kMain}));
  EXPECT_EQ(waited, 0U);
}

TEST(ChooseHomes, AFileOfWhichLessThanHalfIsOfUseIsMadeAnew) {
  const ChangeHistory history;
  const std::vector<WriteItem> items{item("kept", 1 << 20)};
  uint64_t waited = 0;
  EXPECT_EQ(choose_homes(items, {0}, 2 << 20, history, &waited), std::vector<Home>{Home::kKept});
  EXPECT_EQ(choose_homes(items, {0}, 3 << 20, history, &waited), std::vector<Home>{Home::kNew});
  // Too little for a file of its own.
  EXPECT_EQ(choose_homes({item("kept", 100000)}, {0}, 3 << 20, history, &waited), std::vector<Home>{Home::kMain});
}

}  // namespace
}  // namespace dl::ckpt::test
