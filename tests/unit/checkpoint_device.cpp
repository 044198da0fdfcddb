// SPDX-License-Identifier: Apache-2.0
// Tensors on devices: saved and restored bit for bit, whatever the mode, the strides and the number of ranks; and what
// the program has queued is waited for. On a double of the driver whose memory the host cannot touch: an access by the
// library ends this program.
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "checkpoint/device/strided.h"
#include "tests/unit/checkpoint_device_support.h"

namespace dl::ckpt::test {
namespace {

std::unique_ptr<Context> open_small(const std::string& dir, int rank = 0, int world_size = 1,
                                    const std::string& run_id = "test") {
  Settings settings = settings_for(dir, rank, world_size, run_id);
  settings.mode = Settings::kAsync;
  settings.memory_bytes = 512 << 10;  // less than the state
  auto context = open_context(settings);
  EXPECT_TRUE(context) << (context ? "" : context.error().text);
  return context ? *std::move(context) : nullptr;
}

TEST_F(CheckpointDevice, EachPlaceIsRecognized) {
  const DeviceBuffer first(100), second(100, kDoubleDevice, 1), managed(100, kDoubleManaged), pool(100, kDoublePool, 1);
  int host = 0;
  EXPECT_TRUE(place_of(&host)->on_host());
  EXPECT_TRUE(place_of(nullptr)->on_host());
  const auto kind = [](const DeviceBuffer& memory, size_t at) { return place_of(memory.pointer() + at)->kind; };
  EXPECT_EQ(kind(first, 0), MemoryPlace::Kind::kDevice);
  EXPECT_EQ(kind(first, 99), MemoryPlace::Kind::kDevice);
  EXPECT_EQ(kind(managed, 50), MemoryPlace::Kind::kManaged);
  EXPECT_EQ(place_of(first.pointer())->device, 0);
  EXPECT_EQ(place_of(second.pointer())->device, 1);
  EXPECT_NE(place_of(first.pointer())->context, nullptr);
  EXPECT_EQ(place_of(pool.pointer())->context, nullptr);
  EXPECT_EQ(place_of(pool.pointer())->device, 1);
  EXPECT_EQ(dlckpt_where(&host), DLCKPT_ON_HOST);
  EXPECT_EQ(dlckpt_where(managed.pointer()), DLCKPT_MANAGED);
  EXPECT_EQ(dlckpt_where(second.pointer()), DLCKPT_ON_DEVICE);
}

TEST_F(CheckpointDevice, AMixedStateComesBackBitForBitInEveryMode) {
  for (const unsigned flags : {unsigned{DLCKPT_SYNC}, 0U, unsigned{DLCKPT_LAZY}}) {
    const TempDir dir;
    MixedState state;
    auto context = open_small(dir.path());
    ASSERT_TRUE(state.enroll(*context));
    for (int64_t step = 1; step <= 3; ++step) {
      state.fill(static_cast<uint64_t>(step));
      const Status saved = context->save(step, flags);
      ASSERT_TRUE(saved) << saved.error().text;
      context->before_mutation();
      state.fill(99);  // the next train step
      const Status durable = context->wait(-1, nullptr);
      ASSERT_TRUE(durable) << durable.error().text;
    }
    std::string note;
    for (const int64_t step : {int64_t{3}, int64_t{1}}) {
      const auto restored = context->restore(step, &note);
      ASSERT_TRUE(restored) << restored.error().text;
      EXPECT_TRUE(state.holds(static_cast<uint64_t>(step))) << "flags " << flags << ", train step " << step;
    }
  }
}

TEST_F(CheckpointDevice, StagingMemoryIsPinnedOnceAndGivenBackBeforeItIsUnmapped) {
  const TempDir dir;
  MixedState state;
  {
    auto context = open_small(dir.path());
    ASSERT_TRUE(state.enroll(*context));
    for (int64_t step = 1; step <= 3; ++step) ASSERT_TRUE(context->save(step, DLCKPT_SYNC));
    EXPECT_EQ(gpu().calls("cuMemHostRegister"), 1);
    EXPECT_EQ(gpu().left().pinned, 1);
  }
  EXPECT_EQ(gpu().calls("cuMemHostUnregister"), 1);
}

TEST_F(CheckpointDevice, AStateOnTheHostMakesNoCallsButToAskWhereItLies) {
  const TempDir dir;
  auto context = *open_context(settings_for(dir.path()));
  PatternState state;
  state.fill(1);
  ASSERT_TRUE(state.enroll(*context));
  ASSERT_TRUE(context->save(1, DLCKPT_SYNC));
  std::string note;
  ASSERT_TRUE(context->restore(1, &note));
  EXPECT_EQ(gpu().calls(nullptr), gpu().calls("cuPointerGetAttributes"));
}

TEST_F(CheckpointDevice, QueuedWorkIsWaitedForBeforeASaveAndBeforeARestore) {
  for (const unsigned flags : {unsigned{DLCKPT_SYNC}, 0U, unsigned{DLCKPT_LAZY}}) {
    const TempDir dir;
    MixedState state;
    auto context = open_small(dir.path());
    ASSERT_TRUE(state.enroll(*context));
    state.fill(1);
    const auto step_on = [](void* memory) { static_cast<DeviceBuffer*>(memory)->fill(2); };
    gpu().queue(0, step_on, &state.weights);
    gpu().queue(1, step_on, &state.other);
    ASSERT_TRUE(context->save(1, flags));
    ASSERT_TRUE(context->wait(-1, nullptr));
    state.fill(3);
    const auto spoil = [](void* memory) { static_cast<DeviceBuffer*>(memory)->fill(4); };
    gpu().queue(0, spoil, &state.weights);
    std::string note;
    ASSERT_TRUE(context->restore(1, &note));
    gpu().synchronize(0);
    EXPECT_TRUE(state.weights.holds(2)) << flags;
    EXPECT_TRUE(state.other.holds(2)) << flags;
    EXPECT_TRUE(state.moments.holds(1)) << flags;
  }
}

TEST_F(CheckpointDevice, WhatDoesNotChangeIsStoredOnceAndWhatQueuedWorkWillChangeIsNotMistakenForIt) {
  const TempDir dir;
  const DeviceBuffer base(600000), changing(100000);
  const int64_t n = 600000, m = 100000;
  auto context = *open_context(settings_for(dir.path()));
  const auto add = [&](const char* path, const int64_t* size, const DeviceBuffer& memory, unsigned flags) {
    return context->registry().add_tensor(path, DLCKPT_U8, 1, size, nullptr, nullptr, memory.pointer(), flags);
  };
  ASSERT_TRUE(add("base", &n, base, DLCKPT_REPLICATED | DLCKPT_FROZEN));
  ASSERT_TRUE(add("changing", &m, changing, DLCKPT_REPLICATED));
  base.fill(1);
  for (int64_t step = 1; step <= 2; ++step) {
    changing.fill(static_cast<uint64_t>(step));
    ASSERT_TRUE(context->save(step, DLCKPT_SYNC));
  }
  EXPECT_EQ(context->stats().reused_bytes, 600000U);
  const auto change = [](void* memory) { static_cast<const DeviceBuffer*>(memory)->fill(3); };
  gpu().queue(0, change, const_cast<DeviceBuffer*>(&base));
  ASSERT_TRUE(context->save(3, DLCKPT_SYNC));
  EXPECT_EQ(context->stats().reused_bytes, 0U);
  std::string note;
  for (const int64_t step : {int64_t{3}, int64_t{2}}) {
    base.fill(9);
    changing.fill(9);
    ASSERT_TRUE(context->restore(step, &note));
    EXPECT_TRUE(base.holds(step == 3 ? 3 : 1));
    EXPECT_TRUE(changing.holds(2));
  }
}

// A box in memory of any layout, which begins `first` bytes into it.
struct Layout {
  Dims extent, strides;
  size_t first = 0, bytes = 0;

  Layout(size_t element, std::mt19937& random) {
    extent.resize(1 + random() % 4);
    for (int64_t& n : extent) n = 1 + static_cast<int64_t>(random() % (extent.size() < 3 ? 60 : 9));
    std::vector<size_t> order(extent.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
    strides.resize(order.size());
    auto stride = static_cast<int64_t>(element);
    int64_t span = stride, negative = 0;
    for (size_t i = order.size(); i-- > 0;) {
      const size_t d = order[i];
      if (random() % 3 == 0) stride += static_cast<int64_t>(1 + random() % 40);  // a gap
      const int64_t reach = stride * (extent[d] - 1);
      strides[d] = stride;
      span += reach;
      if (random() % 5 == 0) {
        strides[d] = -stride;
        negative += reach;
      }
      stride = std::max(stride * extent[d], span);
    }
    first = random() % 9 + static_cast<size_t>(negative);
    bytes = first + static_cast<size_t>(span) + 8;
  }
  // Calls visit(number of the element in C order, byte where it begins).
  template <typename Visit>
  void each(Visit&& visit) const {
    std::vector<int64_t> index(extent.size(), 0);
    for (size_t number = 0;; ++number) {
      int64_t at = static_cast<int64_t>(first);
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
      visit(number, static_cast<size_t>(at));
      size_t d = index.size();
      while (d > 0 && ++index[d - 1] == extent[d - 1]) index[--d] = 0;
      if (d == 0) return;
    }
  }
};

TEST_F(CheckpointDevice, AnyStridesAreSavedAndRestoredAndNothingBetweenIsTouched) {
  std::mt19937 random(20250101);
  const TempDir dir;
  auto context = *open_context(settings_for(dir.path()));
  for (int64_t round = 0; round < 60; ++round) {
    const int dtypes[] = {DLCKPT_U8, DLCKPT_F16, DLCKPT_F32, DLCKPT_C128};
    const DtypeInfo& dtype = *find_dtype(dtypes[random() % 4]);
    const Layout layout(dtype.size, random);
    const int kinds[] = {kDoubleDevice, kDoubleManaged, kDoublePool};
    const DeviceBuffer memory(layout.bytes, kinds[random() % 3], static_cast<int>(random() % 2));
    memory.fill(static_cast<uint64_t>(round));
    const auto add = [&](const int64_t* strides, void* data) {
      return context->registry().add_tensor("t", dtype.id, static_cast<int>(layout.extent.size()), layout.extent.data(),
                                            nullptr, nullptr, data, DLCKPT_REPLICATED, strides);
    };
    ASSERT_TRUE(add(layout.strides.data(), memory.pointer() + layout.first));
    const Status saved = context->save(round, DLCKPT_SYNC);
    ASSERT_TRUE(saved) << saved.error().text;

    std::vector<unsigned char> dense(*volume(layout.extent) * dtype.size), expected(layout.bytes, 0xA5);
    ASSERT_TRUE(add(nullptr, dense.data()));
    std::string note;
    ASSERT_TRUE(context->restore(round, &note));
    bool same = true;
    layout.each([&](size_t number, size_t at) {
      same = same && std::memcmp(dense.data() + number * dtype.size, memory.contents() + at, dtype.size) == 0;
      std::memcpy(expected.data() + at, memory.contents() + at, dtype.size);
    });
    ASSERT_TRUE(same) << "saved wrongly in round " << round;

    std::memset(memory.contents(), 0xA5, layout.bytes);
    ASSERT_TRUE(add(layout.strides.data(), memory.pointer() + layout.first));
    ASSERT_TRUE(context->restore(round, &note));
    ASSERT_EQ(std::memcmp(memory.contents(), expected.data(), layout.bytes), 0)
        << "restored wrongly in round " << round;
  }
}

TEST_F(CheckpointDevice, AMatrixWithGapsBetweenItsRowsIsCopiedInFewCalls) {
  const TempDir dir;
  auto context = *open_context(settings_for(dir.path()));
  const int64_t shape[] = {2000, 250}, strides[] = {1024, 4};
  const DeviceBuffer matrix(2000 * 1024);
  matrix.fill(1);
  ASSERT_TRUE(context->registry().add_tensor("m", DLCKPT_F32, 2, shape, nullptr, nullptr, matrix.pointer(),
                                             DLCKPT_REPLICATED, strides));
  ASSERT_TRUE(context->save(1, DLCKPT_SYNC));
  std::memset(matrix.contents(), 0, matrix.bytes());
  std::string note;
  ASSERT_TRUE(context->restore(1, &note));
  const long copies =
      gpu().calls("cuMemcpy2DAsync") + gpu().calls("cuMemcpyDtoHAsync") + gpu().calls("cuMemcpyHtoDAsync");
  EXPECT_LT(copies, 100);
}

TEST_F(CheckpointDevice, TwoRanksSaveAndThreeRestoreOnOtherDevices) {
  const TempDir dir;
  constexpr int64_t kRows = 501, kColumns = 977;
  const auto rows_of = [](int rank, int ranks) { return std::pair(kRows * rank / ranks, kRows * (rank + 1) / ranks); };
  const auto value = [](int64_t row, int64_t column) { return static_cast<uint32_t>(row * 100003 + column); };
  std::atomic<uint64_t> received{0};
  const auto work = [&](int ranks, bool save, int rank) {
    auto context = open_small(dir.path(), rank, ranks, save ? "saves" : "restores");
    ASSERT_TRUE(context);
    const auto [begin, end] = rows_of(rank, ranks);
    const int64_t shape[] = {kRows, kColumns}, offset[] = {begin, 0}, extent[] = {end - begin, kColumns};
    const DeviceBuffer part(static_cast<size_t>((end - begin) * kColumns) * 4, kDoubleDevice, rank % 2);
    const DeviceBuffer shared(100000, kDoubleManaged, rank % 2);
    if (save) shared.fill(5);
    auto* elements = reinterpret_cast<uint32_t*>(part.contents());
    for (int64_t i = 0; save && i < (end - begin) * kColumns; ++i)
      elements[i] = value(begin + i / kColumns, i % kColumns);
    const int64_t n = 100000;
    ASSERT_TRUE(context->registry().add_tensor("w", DLCKPT_U32, 2, shape, offset, extent, part.pointer(), 0));
    ASSERT_TRUE(
        context->registry().add_tensor("s", DLCKPT_U8, 1, &n, nullptr, nullptr, shared.pointer(), DLCKPT_REPLICATED));
    if (save) {
      ASSERT_TRUE(context->save(7));
      const Status durable = context->wait(-1, nullptr);
      ASSERT_TRUE(durable) << durable.error().text;
      return;
    }
    std::string note;
    const auto restored = context->restore(DLCKPT_LATEST, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    bool same = shared.holds(5);
    for (int64_t i = 0; i < (end - begin) * kColumns; ++i)
      same = same && elements[i] == value(begin + i / kColumns, i % kColumns);
    EXPECT_TRUE(same) << "rank " << rank;
    received += context->restore_stats().received_bytes;
  };
  run_ranks(2, [&](int rank) { work(2, true, rank); });
  run_ranks(3, [&](int rank) { work(3, false, rank); });
  EXPECT_GT(received, 0U) << "no rank got anything from another";
}

TEST_F(CheckpointDevice, ABlobInDeviceMemoryIsRefused) {
  const TempDir dir;
  auto context = *open_context(settings_for(dir.path()));
  const DeviceBuffer memory(10, kDoubleDevice, 1);
  const Status added = context->registry().add_blob("b", memory.pointer(), 10, false);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().text, "blob 'b': its data is in memory of GPU 1; allowed: host memory");
}

// The driver refuses all in a child of fork(): what lies on the host is saved there all the same.
TEST_F(CheckpointDevice, AForkedChildSavesItsHostMemory) {
  const TempDir dir;
  gpu();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(save_pattern(dir.path(), 1) && restore_pattern(dir.path()) ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace dl::ckpt::test
