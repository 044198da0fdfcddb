// SPDX-License-Identifier: Apache-2.0
// Measures how fast this node's GPUs copy, with CUDA's driver if it is installed: from and to pinned memory of the
// host, within a GPU's memory, and from each GPU to the next. cuda.h describes the functions and the numbers used here.
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "common/base/median.h"
#include "launcher/preflight/checks.h"

namespace dl::preflight {
namespace {

using Context = void*;
using Pointer = unsigned long long;
constexpr int kSuccess = 0, kOutOfMemory = 2;
constexpr size_t kBytes = size_t{64} << 20;
constexpr int kTimes = 5;         // measured; the best counts. One more, before them, is not measured.
constexpr double kSlowGpu = 0.5;  // share of the median of the node's GPUs
constexpr size_t kFewest = 3;     // GPUs that can be compared with one another

class Driver {
 public:
  Driver() : library_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  bool installed() const { return library_ != nullptr; }

  // Calls a function of the driver and returns its code, or kMissing if this version lacks the function.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    using Function = int(Arguments...);
    auto* function = library_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library_, name));
    return function == nullptr ? kMissing : function(arguments...);
  }
  std::string name_of(int code) const {
    const char* name = nullptr;
    if (call("cuGetErrorName", code, &name) != kSuccess || name == nullptr) return fmt::format("CUDA error {}", code);
    return name;
  }

 private:
  static constexpr int kMissing = -1;
  void* library_;  // stays loaded, since this process ends soon
};

// A GPU with the memory that its measurement needs.
struct Gpu {
  Context context = nullptr;
  void* host = nullptr;
  Pointer from = 0, to = 0;
};

struct Rates {
  CheckResult fault;                                // if not kGood, nothing could be measured
  std::map<std::string, std::vector<double>> each;  // by check: bytes/s of each GPU
};

class Measurement {
 public:
  explicit Measurement(int expected) { rates.fault = run(expected); }
  Rates rates;

 private:
  CheckResult run(int expected) {
    if (expected <= 0) return not_good(Grade::kSkipped, "the job has no GPUs");
    if (!driver_.installed()) return not_good(Grade::kSkipped, "no libcuda.so.1 here");
    int count = 0;
    int code = driver_.call("cuInit", 0U);
    if (code == kSuccess) code = driver_.call("cuDeviceGetCount", &count);
    if (code != kSuccess) return not_good(Grade::kBad, "CUDA does not start: " + driver_.name_of(code));
    if (count == 0) return not_good(Grade::kBad, "CUDA finds no GPU");
    for (int device = 0; device < count; ++device) {
      gpus_.emplace_back();
      if (const auto& [call, failed] = prepare(device); failed != kSuccess) return say(device, call, failed);
      if (const auto& [call, failed] = measure(gpus_.back()); failed != kSuccess) return say(device, call, failed);
    }
    for (size_t i = 0; count > 1 && i < gpus_.size(); ++i)
      if (const int failed = to_the_next(i); failed != kSuccess)
        return say(static_cast<int>(i), "cuMemcpyPeer", failed);
    return good(0);
  }

  CheckResult say(int device, const char* call, int code) {
    if (code == kOutOfMemory)
      return not_good(Grade::kWarning,
                      fmt::format("GPU {} has no 128 MiB of free memory: another program uses it", device));
    return not_good(Grade::kBad, fmt::format("GPU {}: {} failed: {}", device, call, driver_.name_of(code)));
  }

  struct Step {
    const char* call;
    int code;
  };
  Step prepare(int device) {
    Gpu& gpu = gpus_.back();
    if (int code = driver_.call("cuDevicePrimaryCtxRetain", &gpu.context, device); code != kSuccess)
      return {"cuDevicePrimaryCtxRetain", code};
    if (int code = driver_.call("cuCtxSetCurrent", gpu.context); code != kSuccess) return {"cuCtxSetCurrent", code};
    if (int code = driver_.call("cuMemAllocHost_v2", &gpu.host, kBytes); code != kSuccess)
      return {"cuMemAllocHost", code};
    for (Pointer* memory : {&gpu.from, &gpu.to})
      if (int code = driver_.call("cuMemAlloc_v2", memory, kBytes); code != kSuccess) return {"cuMemAlloc", code};
    return {"", kSuccess};
  }

  Step measure(const Gpu& gpu) {
    const auto to_gpu = [&] {
      return driver_.call("cuMemcpyHtoD_v2", gpu.from, static_cast<const void*>(gpu.host), kBytes);
    };
    const auto to_host = [&] { return driver_.call("cuMemcpyDtoH_v2", gpu.host, gpu.from, kBytes); };
    const auto within = [&] { return driver_.call("cuMemcpyDtoD_v2", gpu.to, gpu.from, kBytes); };
    if (int code = best("gpu_from_host", to_gpu); code != kSuccess) return {"cuMemcpyHtoD", code};
    if (int code = best("gpu_to_host", to_host); code != kSuccess) return {"cuMemcpyDtoH", code};
    if (int code = best("gpu_memory", within); code != kSuccess) return {"cuMemcpyDtoD", code};
    return {"", kSuccess};
  }

  int to_the_next(size_t i) {
    const Gpu& next = gpus_[(i + 1) % gpus_.size()];
    if (int code = driver_.call("cuCtxSetCurrent", gpus_[i].context); code != kSuccess) return code;
    return best("gpu_to_gpu", [&] {
      return driver_.call("cuMemcpyPeer", next.to, next.context, gpus_[i].from, gpus_[i].context, kBytes);
    });
  }

  template <typename Copy>
  int best(const char* check, Copy copy) {
    using Clock = std::chrono::steady_clock;
    double rate = 0;
    for (int i = 0; i <= kTimes; ++i) {
      const auto begin = Clock::now();
      if (int code = copy(); code != kSuccess) return code;
      // A copy within the device may return before it is done, so it is waited for.
      if (int code = driver_.call("cuCtxSynchronize"); code != kSuccess) return code;
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (i > 0) rate = std::max(rate, static_cast<double>(kBytes) / std::max(seconds, 1e-9));
    }
    rates.each[check].push_back(rate);
    return kSuccess;
  }

  Driver driver_;
  std::vector<Gpu> gpus_;  // their resources are released when the process ends
};

// All four checks use one measurement. Only the first of them reports a fault.
CheckResult check(const CheckInput& input, const std::string& name, bool first) {
  static const Measurement measurement(input.gpus);
  const Rates& rates = measurement.rates;
  const auto found = rates.each.find(name);
  if (rates.fault.grade != Grade::kGood) return first ? rates.fault : not_good(Grade::kSkipped, "not measured");
  if (found == rates.each.end())
    return not_good(Grade::kSkipped, "the node has one GPU alone, which is compared with nothing");
  const std::vector<double>& each = found->second;
  const auto slowest = std::min_element(each.begin(), each.end());
  const double usual = median(each);
  if (each.size() >= kFewest && *slowest < kSlowGpu * usual) {
    CheckResult bad =
        not_good(Grade::kBad, fmt::format("GPU {} copies {:.3g} GB/s ({}), the median of {} GPUs is {:.3g}",
                                          slowest - each.begin(), *slowest / 1e9, name, each.size(), usual / 1e9));
    bad.value = *slowest;
    return bad;
  }
  return good(*slowest);
}

}  // namespace

CheckResult check_gpu_from_host(const CheckInput& input) {
  return check(input, "gpu_from_host", true);
}
CheckResult check_gpu_to_host(const CheckInput& input) {
  return check(input, "gpu_to_host", false);
}
CheckResult check_gpu_memory(const CheckInput& input) {
  return check(input, "gpu_memory", false);
}
CheckResult check_gpu_to_gpu(const CheckInput& input) {
  return check(input, "gpu_to_gpu", false);
}

}  // namespace dl::preflight
