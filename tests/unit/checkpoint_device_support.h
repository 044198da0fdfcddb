// SPDX-License-Identifier: Apache-2.0
// Device memory for tests, from the double of the CUDA driver (tests/lib/cuda_double), which each test leaves clean.
#pragma once

#include <dlfcn.h>

#include "checkpoint/device/cuda_driver.h"
#include "tests/lib/cuda_double/cuda_double.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {

// Loads the double as a program loads the driver: before that the process has none.
inline const CudaDouble& gpu() {
  static const CudaDouble* const loaded = [] {
    EXPECT_EQ(CudaDriver::find(), nullptr);  // and it is found once it is there, although it was looked for before
    EXPECT_EQ(CudaDriver::find(), nullptr);
    void* library = ::dlopen(DL_TEST_CUDA_DOUBLE, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      std::abort();
    }
    auto* found = reinterpret_cast<const CudaDouble* (*)()>(::dlsym(library, "cuda_double"))();
    found->init();
    EXPECT_NE(CudaDriver::find(), nullptr);
    return found;
  }();
  return *loaded;
}

// Elements that lie where the host cannot touch them.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes, int kind = kDoubleDevice, int device = 0)
      : bytes_(bytes), memory_(gpu().allocate(bytes, kind, device)) {}
  ~DeviceBuffer() { gpu().release(memory_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  unsigned char* pointer() const { return static_cast<unsigned char*>(memory_); }
  unsigned char* contents() const { return gpu().contents(memory_); }
  size_t bytes() const { return bytes_; }
  void fill(uint64_t seed) const {
    unsigned char* bytes = contents();
    for (size_t i = 0; i < bytes_; ++i) bytes[i] = value(seed, i);
  }
  bool holds(uint64_t seed) const {
    const unsigned char* bytes = contents();
    for (size_t i = 0; i < bytes_; ++i)
      if (bytes[i] != value(seed, i)) return false;
    return true;
  }

 private:
  static unsigned char value(uint64_t seed, size_t i) {
    return static_cast<unsigned char>((seed * 131 + i) * 2654435761U >> 13);
  }
  size_t bytes_;
  void* memory_;
};

class CheckpointDevice : public testing::Test {
 protected:
  void SetUp() override { gpu().fail(0, 0, false); }
  void TearDown() override {
    gpu().fail(0, 0, false);
    EXPECT_STREQ(gpu().faults(), "");
    const CudaDoubleLeft left = gpu().left();
    EXPECT_EQ(left.streams, 0);
    EXPECT_EQ(left.pinned, 0);
    EXPECT_EQ(left.pushed, 0);
    EXPECT_EQ(left.retained, 0);
    EXPECT_EQ(left.modes, 0);
    gpu().forgive();
  }
};

// A state that lies everywhere.
struct MixedState {
  std::vector<uint32_t> host = std::vector<uint32_t>(40000);
  DeviceBuffer weights{160000};
  DeviceBuffer moments{200003, kDoublePool};
  DeviceBuffer managed{70000, kDoubleManaged};
  DeviceBuffer other{300000, kDoubleDevice, 1};
  DeviceBuffer count{8};

  void fill(uint64_t seed) {
    for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<uint32_t>(seed * 77 + i * 40503U);
    for (const DeviceBuffer* one : {&weights, &moments, &managed, &other, &count}) one->fill(seed);
  }
  bool holds(uint64_t seed) const {
    for (size_t i = 0; i < host.size(); ++i)
      if (host[i] != static_cast<uint32_t>(seed * 77 + i * 40503U)) return false;
    for (const DeviceBuffer* one : {&weights, &moments, &managed, &other, &count})
      if (!one->holds(seed)) return false;
    return true;
  }
  Status enroll(Context& context) {
    const auto add = [&](const char* path, int dtype, int64_t n, void* data) {
      return context.registry().add_tensor(path, dtype, 1, &n, nullptr, nullptr, data, DLCKPT_REPLICATED);
    };
    DL_TRY(add("host", DLCKPT_U32, static_cast<int64_t>(host.size()), host.data()));
    DL_TRY(add("weights", DLCKPT_F32, 40000, weights.pointer()));
    DL_TRY(add("moments", DLCKPT_U8, 200003, moments.pointer()));
    DL_TRY(add("managed", DLCKPT_BF16, 35000, managed.pointer()));
    DL_TRY(add("other", DLCKPT_F64, 37500, other.pointer()));
    return context.registry().add_tensor("count", DLCKPT_I64, 0, nullptr, nullptr, nullptr, count.pointer(),
                                         DLCKPT_REPLICATED);
  }
};

}  // namespace dl::ckpt::test
