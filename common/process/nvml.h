// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library (NVML), opened at run time if it is installed; nothing of CUDA is linked. Its functions
// and constants are described in nvml.h of the CUDA toolkit. Calls may take seconds, and hang if the driver hangs.
#pragma once

#include <dlfcn.h>

#include <string>

#include "common/base/parse.h"

namespace dl {

class Nvml {
 public:
  using Device = void*;
  static constexpr int kSuccess = 0;

  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto init = function<int()>("nvmlInit_v2");
    ready_ = init != nullptr && init() == kSuccess;
  }
  ~Nvml() {
    if (!ready_) return;
    if (const auto shutdown = function<int()>("nvmlShutdown")) shutdown();
    // The library is not unloaded: some versions do not survive dlclose(), and this process ends soon.
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  bool installed() const { return library_ != nullptr; }
  bool ready() const { return ready_; }

  // The GPU with this index ("3") or UUID ("GPU-8a..."); nullptr if there is none.
  Device device(const std::string& name) const {
    constexpr int kMaxGpu = 1023;
    Device found = nullptr;
    if (const auto index = parse_int(name, 0, kMaxGpu)) {
      const auto by_index = function<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
      return by_index != nullptr && by_index(static_cast<unsigned>(*index), &found) == kSuccess ? found : nullptr;
    }
    const auto by_uuid = function<int(const char*, Device*)>("nvmlDeviceGetHandleByUUID");
    return by_uuid != nullptr && by_uuid(name.c_str(), &found) == kSuccess ? found : nullptr;
  }
  // A function of the library; nullptr if this version lacks it. Signature must be the one in nvml.h.
  template <typename Signature>
  Signature* function(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Signature*>(::dlsym(library_, name));
  }

 private:
  void* library_;
  bool ready_ = false;
};

}  // namespace dl
