// SPDX-License-Identifier: Apache-2.0
// Tensors on a real GPU, by the CUDA driver's own calls: in device memory, with gaps, managed, and with copies queued
// on a stream when the save begins. Where there is none, checkpoint_device.cpp does the same on a double.
#include <dlfcn.h>
#include <unistd.h>

#include "checkpoint/device/cuda_driver.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr size_t kBytes = size_t{48} << 20;

class CheckpointGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/dev/nvidia0", F_OK) != 0) GTEST_SKIP() << "there is no GPU here (/dev/nvidia0)";
    library_ = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (!library_) GTEST_SKIP() << ::dlerror();
    const int rc = call<int(unsigned)>("cuInit")(0);
    if (rc != 0) GTEST_SKIP() << "cuInit gives " << rc;
    const cuda::Functions& functions = CudaDriver::find()->call();
    ASSERT_EQ(functions.DevicePrimaryCtxRetain(&context_, 0), 0);
    ASSERT_EQ(functions.CtxPushCurrent(context_), 0);
  }
  void TearDown() override {
    for (const cuda::DevicePtr memory : memory_) call<int(cuda::DevicePtr)>("cuMemFree_v2")(memory);
    if (context_) CudaDriver::find()->call().CtxPopCurrent(&context_);
  }
  template <typename Type>
  Type* call(const char* symbol) {
    return reinterpret_cast<Type*>(::dlsym(library_, symbol));
  }
  cuda::DevicePtr allocate(bool managed) {
    cuda::DevicePtr memory = 0;
    const int rc = managed ? call<int(cuda::DevicePtr*, size_t, unsigned)>("cuMemAllocManaged")(&memory, kBytes, 1)
                           : call<int(cuda::DevicePtr*, size_t)>("cuMemAlloc_v2")(&memory, kBytes);
    EXPECT_EQ(rc, 0);
    memory_.push_back(memory);
    return memory;
  }
  void put(cuda::DevicePtr to, const std::vector<unsigned char>& from) {
    ASSERT_EQ(call<int(cuda::DevicePtr, const void*, size_t)>("cuMemcpyHtoD_v2")(to, from.data(), from.size()), 0);
  }
  std::vector<unsigned char> get(cuda::DevicePtr from) {
    std::vector<unsigned char> bytes(kBytes);
    EXPECT_EQ(call<int(void*, cuda::DevicePtr, size_t)>("cuMemcpyDtoH_v2")(bytes.data(), from, kBytes), 0);
    return bytes;
  }
  // Queued, not waited for.
  void set(cuda::DevicePtr to, unsigned char value) {
    ASSERT_EQ(call<int(cuda::DevicePtr, unsigned char, size_t)>("cuMemsetD8_v2")(to, value, kBytes), 0);
  }

 private:
  void* library_ = nullptr;
  cuda::Context context_ = nullptr;
  std::vector<cuda::DevicePtr> memory_;
};

TEST_F(CheckpointGpu, DeviceAndManagedMemoryComesBackBitForBit) {
  const TempDir dir;
  auto context = *open_context(settings_for(dir.path()));
  const cuda::DevicePtr plain = allocate(false), pitched = allocate(false), managed = allocate(true),
                        set_by_gpu = allocate(false);
  const auto add = [&](const char* path, cuda::DevicePtr memory, int64_t rows, int64_t row, int64_t pitch) {
    const int64_t shape[] = {rows, row}, strides[] = {pitch, 1};
    return context->registry().add_tensor(path, DLCKPT_U8, 2, shape, nullptr, nullptr, reinterpret_cast<void*>(memory),
                                          DLCKPT_REPLICATED, strides);
  };
  const int64_t bytes = kBytes;
  ASSERT_TRUE(add("plain", plain, 1, bytes, bytes));
  ASSERT_TRUE(add("pitched", pitched, bytes / 4096, 4000, 4096));
  ASSERT_TRUE(add("managed", managed, 1, bytes, bytes));
  ASSERT_TRUE(add("set", set_by_gpu, 1, bytes, bytes));
  EXPECT_EQ(dlckpt_where(reinterpret_cast<void*>(plain)), DLCKPT_ON_DEVICE);
  EXPECT_EQ(dlckpt_where(reinterpret_cast<void*>(managed)), DLCKPT_MANAGED);
  std::vector<unsigned char> values(kBytes);
  for (size_t i = 0; i < kBytes; ++i) values[i] = static_cast<unsigned char>(i * 2654435761U >> 11);
  for (const unsigned flags : {unsigned{DLCKPT_SYNC}, 0U, unsigned{DLCKPT_LAZY}}) {
    for (const cuda::DevicePtr memory : {plain, pitched, managed}) put(memory, values);
    set(set_by_gpu, static_cast<unsigned char>(7 + flags));
    const Status saved = context->save(static_cast<int64_t>(flags), flags);
    ASSERT_TRUE(saved) << saved.error().text;
    context->before_mutation();
    for (const cuda::DevicePtr memory : {plain, pitched, managed, set_by_gpu}) set(memory, 0xA5);
    ASSERT_TRUE(context->wait(-1, nullptr));
    std::string note;
    const auto restored = context->restore(static_cast<int64_t>(flags), &note);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_TRUE(get(plain) == values);
    EXPECT_TRUE(get(managed) == values);
    EXPECT_TRUE(get(set_by_gpu) == std::vector<unsigned char>(kBytes, static_cast<unsigned char>(7 + flags)));
    std::vector<unsigned char> expected = values;
    for (size_t i = 0; i < kBytes; ++i)
      if (i % 4096 >= 4000) expected[i] = 0xA5;  // between the rows
    EXPECT_TRUE(get(pitched) == expected);
  }
}

}  // namespace
}  // namespace dl::ckpt::test
