// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/device/cuda_driver.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace dl::ckpt {

namespace {

// The number of libraries that this process has loaded so far.
uint64_t libraries_loaded() {
  uint64_t count = 0;
  const auto take = [](dl_phdr_info* info, size_t /*size*/, void* out) {
    *static_cast<uint64_t*>(out) = info->dlpi_adds;  // the number is the same in every entry
    return 1;
  };
  ::dl_iterate_phdr(take, &count);
  return count;
}

}  // namespace

const CudaDriver* CudaDriver::find() {
  static std::atomic<const CudaDriver*> found{nullptr};
  if (const CudaDriver* driver = found.load(std::memory_order_acquire)) return driver;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (const CudaDriver* driver = found.load(std::memory_order_acquire)) return driver;
  // If the driver is not loaded, dlopen() searches files for it, which is too slow for each of a million tensors. So it
  // is only asked when another library was loaded since. The count is taken before dlopen(), which waits for a library
  // that another thread is loading.
  static uint64_t missed_at = UINT64_MAX;
  const uint64_t loaded = libraries_loaded();
  if (loaded == missed_at) return nullptr;
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) {
    missed_at = loaded;
    return nullptr;
  }
  // The object is never freed, and the library never closed: a thread may need it while the process ends.
  auto* driver = new CudaDriver;
  const auto load = [&](auto* function, const char* symbol) {
    *reinterpret_cast<void**>(function) = ::dlsym(library, symbol);
    if (!*function) driver->lacking_ += (driver->lacking_.empty() ? "" : ", ") + std::string(symbol);
  };
#define DL_CUDA_LOAD(name, symbol, ...) load(&driver->functions_.name, symbol);
  DL_CUDA_FUNCTIONS(DL_CUDA_LOAD)
#undef DL_CUDA_LOAD
  found.store(driver, std::memory_order_release);
  return driver;
}

Error CudaDriver::error(const char* function, cuda::Code code) const {
  const char* name = nullptr;
  if (!functions_.GetErrorName || functions_.GetErrorName(code, &name) != cuda::kSuccess) name = nullptr;
  const std::string text = std::string(function) + " failed: " + (name ? name : "CUDA error " + std::to_string(code));
  if (code == cuda::kOutOfMemory) return Error{Errc::kInternal, text, ENOMEM};
  if (code == cuda::kNotInCapture)
    return Error{Errc::kIo, text +
                                ": a CUDA graph is being captured on this GPU, for whose work a save or a restore "
                                "waits; begin it when no thread captures there"};
  return Error{Errc::kIo, text};
}

BesideCaptures::BesideCaptures(const CudaDriver& driver) noexcept {
  const auto exchange = driver.call().ThreadExchangeStreamCaptureMode;
  if (exchange && exchange(&former_) == cuda::kSuccess) driver_ = &driver;
}

BesideCaptures::~BesideCaptures() {
  if (driver_) driver_->call().ThreadExchangeStreamCaptureMode(&former_);
}

Result<HeldContext> HeldContext::of(const CudaDriver& driver, const MemoryPlace& place) {
  if (place.context) return HeldContext(driver, static_cast<cuda::Context>(place.context), -1);
  cuda::Context primary = nullptr;
  DL_TRY(driver.check("cuDevicePrimaryCtxRetain", driver.call().DevicePrimaryCtxRetain(&primary, place.device)));
  return HeldContext(driver, primary, place.device);
}

HeldContext::HeldContext(HeldContext&& other) noexcept
    : driver_(other.driver_), context_(other.context_), retained_(other.retained_) {
  other.retained_ = -1;
}

HeldContext::~HeldContext() {
  if (retained_ >= 0) driver_->call().DevicePrimaryCtxRelease(retained_);
}

Result<CurrentContext> CurrentContext::push(const CudaDriver& driver, cuda::Context context) {
  DL_TRY(driver.check("cuCtxPushCurrent", driver.call().CtxPushCurrent(context)));
  return CurrentContext(driver);
}

CurrentContext::~CurrentContext() {
  cuda::Context popped = nullptr;
  if (driver_) driver_->call().CtxPopCurrent(&popped);
}

}  // namespace dl::ckpt
