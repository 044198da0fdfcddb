// SPDX-License-Identifier: Apache-2.0
// A thread captures a CUDA graph in the mode that is the default, global, while the library works on tensors of a
// device in other threads: the capture stays good, and each thread of the program keeps its own mode.
#include <thread>

#include "tests/unit/checkpoint_device_support.h"

namespace dl::ckpt::test {
namespace {

class CheckpointDeviceCapture : public CheckpointDevice {
 protected:
  void TearDown() override {
    gpu().end_capture();
    CheckpointDevice::TearDown();
  }
};

TEST_F(CheckpointDeviceCapture, TheDoubleRefusesWhatTheDriverDoesAndEndsTheCapture) {
  const cuda::Functions& call = CudaDriver::find()->call();
  cuda::Context context = nullptr;
  ASSERT_EQ(call.DevicePrimaryCtxRetain(&context, 0), 0);
  ASSERT_EQ(call.CtxPushCurrent(context), 0);
  const auto create = [&] {
    cuda::Stream stream = nullptr;
    const cuda::Code code = call.StreamCreate(&stream, cuda::kStreamNonBlocking);
    if (code == 0) call.StreamDestroy(stream);
    return code;
  };
  struct Case {
    int capture;
    bool by_another_thread;
    cuda::CaptureMode mode;
    bool allowed;
  };
  for (const Case& one : {Case{0, true, 0, false}, Case{0, true, 1, true}, Case{0, true, 2, true},
                          Case{1, true, 0, true}, Case{2, true, 0, true}, Case{0, false, 1, false},
                          Case{1, false, 0, false}, Case{1, false, 2, true}, Case{2, false, 0, true}}) {
    gpu().begin_capture(0, one.capture, one.by_another_thread);
    cuda::CaptureMode mode = one.mode;
    ASSERT_EQ(call.ThreadExchangeStreamCaptureMode(&mode), 0);
    EXPECT_EQ(create(), one.allowed ? cuda::kSuccess : cuda::kNotInCapture);
    ASSERT_EQ(call.ThreadExchangeStreamCaptureMode(&mode), 0);
    EXPECT_EQ(gpu().end_capture(), one.allowed) << one.capture << one.by_another_thread << one.mode;
  }
  gpu().begin_capture(0, cuda::kCaptureRelaxed, true);
  cuda::CaptureMode mode = cuda::kCaptureRelaxed;
  ASSERT_EQ(call.ThreadExchangeStreamCaptureMode(&mode), 0);
  EXPECT_EQ(call.CtxSynchronize(), cuda::kNotInCapture);
  ASSERT_EQ(call.ThreadExchangeStreamCaptureMode(&mode), 0);
  EXPECT_FALSE(gpu().end_capture());
  ASSERT_EQ(call.CtxPopCurrent(&context), 0);
  ASSERT_EQ(call.DevicePrimaryCtxRelease(0), 0);
}

TEST_F(CheckpointDeviceCapture, CopiesAndPinningLeaveTheCaptureOfAnotherThreadAlone) {
  for (const int kind : {kDoubleDevice, kDoublePool, kDoubleManaged}) {
    const DeviceBuffer memory(4096, kind);
    memory.fill(1);
    std::vector<unsigned char> host(4096);
    gpu().begin_capture(0, cuda::kCaptureGlobal, true);
    const auto place = place_of(memory.pointer());
    ASSERT_TRUE(place) << place.error().text;
    {
      DeviceCopies copies;
      const Status out = copies.to_host(*place, memory.pointer(), host.data(), {4096, 1, 0, 0});
      ASSERT_TRUE(out) << out.error().text;
      ASSERT_TRUE(copies.wait());
      ASSERT_TRUE(copies.to_device(*place, memory.pointer(), host.data(), {512, 4, 1024, 1024}));
    }
    EXPECT_TRUE(memory.holds(1));
    EXPECT_NE(PinnedMemory::pin(*place, host.data(), host.size()), nullptr);
    EXPECT_TRUE(gpu().end_capture());
  }
}

TEST_F(CheckpointDeviceCapture, AThreadKeepsItsOwnMode) {
  const cuda::Functions& call = CudaDriver::find()->call();
  const DeviceBuffer memory(4096);
  cuda::CaptureMode mode = cuda::kCaptureThreadLocal;
  ASSERT_EQ(call.ThreadExchangeStreamCaptureMode(&mode), 0);
  const TempDir dir;
  MixedState state;
  state.fill(1);
  auto context = *open_context(settings_for(dir.path()));
  ASSERT_TRUE(state.enroll(*context));
  ASSERT_TRUE(context->save(1, DLCKPT_SYNC));
  std::string note;
  ASSERT_TRUE(context->restore(1, &note));
  context.reset();
  ASSERT_EQ(call.ThreadExchangeStreamCaptureMode(&mode), 0);
  EXPECT_EQ(mode, cuda::kCaptureThreadLocal);
}

// Each save waits for what is queued on the device. The kernel here is the last of it: from then on another thread
// captures, whatever the library has still to do.
TEST_F(CheckpointDeviceCapture, ASaveLeavesACaptureAloneThatBeginsWhenItsWaitForTheDeviceIsOver) {
  const auto begin = [](void*) { gpu().begin_capture(0, cuda::kCaptureGlobal, true); };
  for (const unsigned flags : {unsigned{DLCKPT_SYNC}, 0U, unsigned{DLCKPT_LAZY}}) {
    const TempDir dir;
    const DeviceBuffer memory(600000);
    const int64_t n = 600000;
    Settings settings = settings_for(dir.path());
    settings.memory_bytes = 256 << 10;  // less than the state
    auto context = *open_context(settings);
    ASSERT_TRUE(context->registry().add_tensor("w", DLCKPT_U8, 1, &n, nullptr, nullptr, memory.pointer(), 0));
    for (int64_t step = 1; step <= 2; ++step) {
      memory.fill(static_cast<uint64_t>(step));
      gpu().queue(0, begin, nullptr);
      const Status saved = context->save(step, flags);
      ASSERT_TRUE(saved) << saved.error().text;
      context->before_mutation();
      const Status durable = context->wait(-1, nullptr);
      ASSERT_TRUE(durable) << durable.error().text;
      EXPECT_TRUE(gpu().end_capture()) << "flags " << flags << ", train step " << step;
    }
    memory.fill(9);
    gpu().queue(0, begin, nullptr);
    std::string note;
    const auto restored = context->restore(2, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_TRUE(gpu().end_capture());
    EXPECT_TRUE(memory.holds(2));
    gpu().begin_capture(0, cuda::kCaptureGlobal, true);  // while the staging memory is given back
    context.reset();
    EXPECT_TRUE(gpu().end_capture());
  }
}

// The training thread may capture as soon as save() has returned; so a lazy save has no wait for the device left.
TEST_F(CheckpointDeviceCapture, ALazySaveLeavesACaptureAloneThatTheTrainingThreadBegins) {
  const TempDir dir;
  const DeviceBuffer memory(600000);
  const int64_t n = 600000;
  auto context = *open_context(settings_for(dir.path()));
  ASSERT_TRUE(context->registry().add_tensor("w", DLCKPT_U8, 1, &n, nullptr, nullptr, memory.pointer(), 0));
  for (int64_t step = 1; step <= 20; ++step) {
    memory.fill(static_cast<uint64_t>(step));
    std::thread::id waiting;
    const auto note = [](void* id) { *static_cast<std::thread::id*>(id) = std::this_thread::get_id(); };
    gpu().queue(0, note, &waiting);
    ASSERT_TRUE(context->save(step, DLCKPT_LAZY));
    gpu().begin_capture(0, cuda::kCaptureGlobal, false);
    EXPECT_EQ(waiting, std::this_thread::get_id());
    context->before_mutation();
    const Status durable = context->wait(-1, nullptr);
    EXPECT_TRUE(gpu().end_capture());
    ASSERT_TRUE(durable) << durable.error().text;
  }
}

TEST_F(CheckpointDeviceCapture, ASaveThatBeginsInACaptureFailsAndSaysWhy) {
  const TempDir dir;
  const DeviceBuffer memory(4096), other(4096, kDoubleDevice, 1);
  const int64_t n = 4096;
  auto context = *open_context(settings_for(dir.path()));
  ASSERT_TRUE(context->registry().add_tensor("w", DLCKPT_U8, 1, &n, nullptr, nullptr, memory.pointer(), 0));
  memory.fill(1);
  for (const unsigned flags : {unsigned{DLCKPT_SYNC}, 0U, unsigned{DLCKPT_LAZY}}) {
    gpu().begin_capture(0, cuda::kCaptureGlobal, true);
    ignore(context->save(1, flags), "told by wait");
    const Status saved = context->wait(-1, nullptr);
    gpu().end_capture();
    ASSERT_FALSE(saved);
    EXPECT_NE(saved.error().text.find("cuCtxSynchronize failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a CUDA graph is "
                                      "being captured on this GPU"),
              std::string::npos)
        << saved.error().text;
    EXPECT_TRUE(scan_checkpoints(posix_io(), dir.path())->empty());
  }
  ASSERT_TRUE(context->save(1, DLCKPT_SYNC));
  gpu().begin_capture(0, cuda::kCaptureGlobal, true);
  EXPECT_TRUE(wait_for_queued_work({*place_of(other.pointer())}));  // that is on another device
  EXPECT_TRUE(gpu().end_capture());
}

}  // namespace
}  // namespace dl::ckpt::test
