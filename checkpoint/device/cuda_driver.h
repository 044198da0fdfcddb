// SPDX-License-Identifier: Apache-2.0
// The CUDA driver of this process, if the program has loaded one. We neither link nor load it: a program with device
// pointers has loaded it already, and other programs must not load it because of us.
#pragma once

#include <string>

#include "checkpoint/device/cuda_abi.h"
#include "checkpoint/device/device_memory.h"

namespace dl::ckpt {

class CudaDriver {
 public:
  // nullptr if this process has not loaded one (yet). Safe to call from any thread; a driver that was found stays valid
  // until the process ends.
  static const CudaDriver* find();

  const cuda::Functions& call() const { return functions_; }
  // Names of the functions that we need and this driver lacks; empty from CUDA 11 on.
  const std::string& lacking() const { return lacking_; }
  // An error such as "cuStreamCreate failed: CUDA_ERROR_ILLEGAL_ADDRESS". kIo; kInternal with ENOMEM if the device has
  // no memory left.
  Error error(const char* function, cuda::Code code) const;
  Status check(const char* function, cuda::Code code) const {
    if (code == cuda::kSuccess) return {};
    return error(function, code);
  }

 private:
  CudaDriver() = default;
  cuda::Functions functions_;
  std::string lacking_;
};

// While this object lives, calls of this thread leave the captures of CUDA graphs by other threads alone. Otherwise
// many of our calls (waiting for a stream, pinning) would fail while another thread captures in the mode that is the
// default, and end that capture: the driver cannot know that they have nothing to do with the graph. Only a wait for a
// whole context ends a capture there in any mode.
class BesideCaptures {
 public:
  explicit BesideCaptures(const CudaDriver& driver) noexcept;
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures();

 private:
  const CudaDriver* driver_ = nullptr;  // nullptr: the thread's mode was not changed
  cuda::CaptureMode former_ = cuda::kCaptureRelaxed;
};

// A context in which the memory can be accessed. If it is the primary one of a device, this object retains it.
class HeldContext {
 public:
  static Result<HeldContext> of(const CudaDriver& driver, const MemoryPlace& place);
  HeldContext(HeldContext&& other) noexcept;
  HeldContext& operator=(HeldContext&&) = delete;
  ~HeldContext();
  cuda::Context get() const { return context_; }

 private:
  HeldContext(const CudaDriver& driver, cuda::Context context, int retained)
      : driver_(&driver), context_(context), retained_(retained) {}
  const CudaDriver* driver_;
  cuda::Context context_;
  int retained_;  // the device whose primary context is retained, or -1
};

// While this object lives, the context is the calling thread's current one; afterwards the former one is current again.
class CurrentContext {
 public:
  static Result<CurrentContext> push(const CudaDriver& driver, cuda::Context context);
  CurrentContext(CurrentContext&& other) noexcept : driver_(other.driver_) { other.driver_ = nullptr; }
  CurrentContext& operator=(CurrentContext&&) = delete;
  ~CurrentContext();

 private:
  explicit CurrentContext(const CudaDriver& driver) : driver_(&driver) {}
  const CudaDriver* driver_;
};

}  // namespace dl::ckpt
