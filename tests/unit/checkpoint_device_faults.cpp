// SPDX-License-Identifier: Apache-2.0
// Each call of the CUDA driver fails once, or for ever from then on: only what was under way fails, with a sentence,
// and nothing wrong is ever committed or called restored.
#include <set>

#include "checkpoint/client/save_plan.h"
#include "tests/unit/checkpoint_device_support.h"

namespace dl::ckpt::test {
namespace {

constexpr int kIllegalAddress = 700;

std::unique_ptr<Context> open_small(const std::string& dir) {
  Settings settings = settings_for(dir);
  settings.memory_bytes = 1 << 20;
  auto context = open_context(settings);
  EXPECT_TRUE(context) << (context ? "" : context.error().text);
  return context ? *std::move(context) : nullptr;
}

// function: which call it is that the sentence must name; any if empty.
void expect_sentence(const Error& error, const std::string& function) {
  EXPECT_NE(error.text.find(function + " failed: CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << error.text;
}

// What was not given back because giving it back failed is no fault of the library.
void forgive_if_needed(const std::string& function) {
  const std::set<std::string> gives_back{"cuStreamDestroy",           "cuCtxPopCurrent",  "cuMemHostUnregister",
                                         "cuDevicePrimaryCtxRelease", "cuCtxPushCurrent", "cuDevicePrimaryCtxRetain",
                                         "cuStreamSynchronize"};
  if (gives_back.count(function) > 0) gpu().forgive();
}

class CheckpointDeviceFaults : public CheckpointDevice, public testing::WithParamInterface<unsigned> {};

TEST_P(CheckpointDeviceFaults, AnyCallOfASaveMayFailOnce) {
  std::set<std::string> met;
  long at = 1;
  for (;; ++at) {
    const TempDir dir;
    MixedState state;
    auto context = open_small(dir.path());
    state.fill(1);
    ASSERT_TRUE(state.enroll(*context));
    gpu().fail(at, kIllegalAddress, false);
    ignore(context->save(1, GetParam()), "told by wait");
    context->before_mutation();
    const Status first = context->wait(-1, nullptr);
    const bool failed = gpu().failed();
    const std::string function = gpu().failed_function();
    met.insert(function);
    if (!first) {
      ASSERT_TRUE(failed) << first.error().text;
      expect_sentence(first.error(), function);
      EXPECT_TRUE(scan_checkpoints(posix_io(), dir.path())->empty());
    }
    gpu().fail(0, 0, false);
    state.fill(2);
    const Status second = context->save(2, DLCKPT_SYNC);
    ASSERT_TRUE(second) << "after call " << at << ": " << second.error().text;
    std::string note;
    for (const int64_t step : {int64_t{1}, int64_t{2}}) {
      if (step == 1 && !first) continue;
      state.fill(9);
      ASSERT_TRUE(context->restore(step, &note));
      ASSERT_TRUE(state.holds(static_cast<uint64_t>(step))) << "after call " << at << ", train step " << step;
    }
    context.reset();
    forgive_if_needed(function);
    if (!failed) break;
    ASSERT_LT(at, 1000);
  }
  for (const char* name : {"cuCtxSynchronize", "cuMemcpyDtoHAsync", "cuStreamCreate", "cuStreamSynchronize",
                           "cuMemHostRegister", "cuCtxPushCurrent", "cuDevicePrimaryCtxRetain"})
    EXPECT_EQ(met.count(name), 1U) << name << " was never the one that failed";
}

TEST_P(CheckpointDeviceFaults, TheDeviceMayDieAtAnyCallOfASave) {
  for (long at = 1;; ++at) {
    const TempDir dir;
    MixedState state;
    state.fill(1);
    {
      auto context = open_small(dir.path());
      ASSERT_TRUE(state.enroll(*context));
      ASSERT_TRUE(context->save(1, DLCKPT_SYNC));
      state.fill(2);
      gpu().fail(at, kIllegalAddress, true);
      ignore(context->save(2, GetParam()), "told by wait");
      context->before_mutation();
      const Status second = context->wait(-1, nullptr);
      if (!gpu().failed()) {
        ASSERT_TRUE(second);
        gpu().fail(0, 0, false);
        break;
      }
      if (!second) expect_sentence(second.error(), "");
      EXPECT_EQ(scan_checkpoints(posix_io(), dir.path())->front().step, second ? 2 : 1);
      state.fill(second ? 2 : 1);
    }
    // The next start of the program, with a good device.
    gpu().fail(0, 0, false);
    gpu().forgive();
    const bool second_counts = state.weights.holds(2);
    state.fill(9);
    auto context = open_small(dir.path());
    ASSERT_TRUE(state.enroll(*context));
    std::string note;
    ASSERT_TRUE(context->restore(DLCKPT_LATEST, &note));
    ASSERT_TRUE(state.holds(second_counts ? 2 : 1)) << "after call " << at;
    ASSERT_LT(at, 1000);
  }
}

TEST_F(CheckpointDevice, APackedTensorThatCannotBeCopiedIsNamed) {
  const TempDir dir;
  std::vector<uint32_t> host(kPackFrom);
  DeviceBuffer count{8};
  Status saved;
  // Until the call that fails is the one that copies.
  for (long at = 1; saved; ++at) {
    auto context = open_small(dir.path());
    for (size_t i = 0; i < host.size(); ++i)
      ASSERT_TRUE(context->registry().add_tensor(("host/" + std::to_string(i)).c_str(), DLCKPT_U32, 0, nullptr, nullptr,
                                                 nullptr, &host[i], DLCKPT_REPLICATED));
    ASSERT_TRUE(context->registry().add_tensor("count", DLCKPT_I64, 0, nullptr, nullptr, nullptr, count.pointer(),
                                               DLCKPT_REPLICATED));
    gpu().fail(at, kIllegalAddress, false);
    saved = context->save(at, DLCKPT_SYNC);
    ASSERT_TRUE(gpu().failed()) << "no save failed";
    const std::string function = gpu().failed_function();
    gpu().fail(0, 0, false);
    context.reset();
    forgive_if_needed(function);
    if (function != "cuMemcpyDtoHAsync") saved = Status();
    ASSERT_LT(at, 1000);
  }
  EXPECT_EQ(saved.error().text.compare(0, 15, "tensor 'count':"), 0) << saved.error().text;
}

INSTANTIATE_TEST_SUITE_P(Modes, CheckpointDeviceFaults, testing::Values(unsigned{DLCKPT_SYNC}, unsigned{DLCKPT_LAZY}));

using CheckpointDeviceRestore = CheckpointDevice;

TEST_F(CheckpointDeviceRestore, AnyCallOfARestoreMayFail) {
  const TempDir dir;
  MixedState state;
  auto context = open_small(dir.path());
  ASSERT_TRUE(state.enroll(*context));
  state.fill(1);
  ASSERT_TRUE(context->save(1, DLCKPT_SYNC));
  for (const bool dead : {false, true}) {
    for (long at = 1;; ++at) {
      state.fill(9);
      gpu().fail(at, kIllegalAddress, dead);
      std::string note;
      const auto restored = context->restore(DLCKPT_LATEST, &note);
      const bool failed = gpu().failed();
      if (restored) {
        EXPECT_TRUE(state.holds(1)) << "call " << at;
      } else {
        ASSERT_TRUE(failed);
        expect_sentence(restored.error(), dead ? "" : gpu().failed_function());
      }
      if (failed) {
        // The staging memory of the save above stays pinned.
        const bool gives_back = gpu().left().streams != 0 || gpu().left().pushed != 0 || gpu().left().retained != 0;
        if (gives_back || gpu().faults()[0] != '\0') {
          gpu().fail(0, 0, false);
          context.reset();
          gpu().forgive();
          context = open_small(dir.path());
          ASSERT_TRUE(state.enroll(*context));
        }
      }
      gpu().fail(0, 0, false);
      if (!failed) break;
      ASSERT_LT(at, 1000);
    }
  }
  std::string note;
  ASSERT_TRUE(context->restore(DLCKPT_LATEST, &note));
  EXPECT_TRUE(state.holds(1));
}

TEST_F(CheckpointDeviceRestore, ADriverThatCannotSayWhereMemoryLiesFailsTheRegistration) {
  const TempDir dir;
  auto context = open_small(dir.path());
  const DeviceBuffer memory(400);
  const int64_t n = 100;
  gpu().fail(1, kIllegalAddress, false);
  const Status added =
      context->registry().add_tensor("w", DLCKPT_F32, 1, &n, nullptr, nullptr, memory.pointer(), DLCKPT_REPLICATED);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().text, "tensor 'w': cuPointerGetAttributes failed: CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(dlckpt_where(memory.pointer()), DLCKPT_ON_DEVICE);
  gpu().fail(1, kIllegalAddress, false);
  EXPECT_EQ(dlckpt_where(memory.pointer()), -1);
}

}  // namespace
}  // namespace dl::ckpt::test
