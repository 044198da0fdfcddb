// SPDX-License-Identifier: Apache-2.0
// Checks the health of the GPUs with NVIDIA's management library.
#include <fmt/core.h>

#include "common/base/count.h"
#include "common/process/nvml.h"
#include "launcher/preflight/checks.h"

namespace dl::preflight {
namespace {

using Device = Nvml::Device;
constexpr int kSuccess = Nvml::kSuccess;
constexpr int kUncorrected = 1, kSinceBoot = 0;  // nvmlMemoryErrorType_t, nvmlEccCounterType_t (volatile)
// Bits of nvmlClocksThrottleReason: hardware slow-down, hardware thermal slow-down, power brake.
constexpr unsigned long long kSlowedByHardware = 0x8 | 0x40 | 0x80;

// The fault of GPU `index`; kGood if it has none.
CheckResult check_one(const Nvml& nvml, unsigned index) {
  Device device = nullptr;
  const auto handle = nvml.function<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
  if (handle == nullptr || handle(index, &device) != kSuccess)
    return not_good(Grade::kBad, fmt::format("GPU {} does not answer", index));
  unsigned long long errors = 0;
  const auto ecc = nvml.function<int(Device, int, int, unsigned long long*)>("nvmlDeviceGetTotalEccErrors");
  if (ecc != nullptr && ecc(device, kUncorrected, kSinceBoot, &errors) == kSuccess && errors > 0)
    return not_good(Grade::kBad, fmt::format("GPU {}: {} uncorrected memory errors since it was reset", index, errors));
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  const auto rows = nvml.function<int(Device, unsigned*, unsigned*, unsigned*, unsigned*)>("nvmlDeviceGetRemappedRows");
  if (rows != nullptr && rows(device, &corrected, &uncorrected, &pending, &failed) == kSuccess) {
    if (failed != 0) return not_good(Grade::kBad, fmt::format("GPU {}: remapping of memory rows failed", index));
    if (pending != 0)
      return not_good(Grade::kBad, fmt::format("GPU {}: memory rows wait to be remapped: it needs a reset", index));
  }
  unsigned long long reasons = 0;
  const auto throttle = nvml.function<int(Device, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  if (throttle != nullptr && throttle(device, &reasons) == kSuccess && (reasons & kSlowedByHardware) != 0)
    return not_good(Grade::kWarning, fmt::format("GPU {} is slowed down by its hardware (heat or power; reasons {:#x})",
                                                 index, reasons));
  return good(0);
}

}  // namespace

CheckResult check_gpus(const CheckInput& input) {
  const Nvml nvml;
  if (!nvml.ready()) {
    const char* why = nvml.installed() ? "NVIDIA's driver does not answer" : "no libnvidia-ml.so.1 here";
    return not_good(nvml.installed() && input.gpus > 0 ? Grade::kBad : Grade::kSkipped, why);
  }
  unsigned count = 0;
  const auto count_of = nvml.function<int(unsigned*)>("nvmlDeviceGetCount_v2");
  if (count_of == nullptr || count_of(&count) != kSuccess) return not_good(Grade::kBad, "the GPUs cannot be counted");
  if (input.gpus > 0 && count < static_cast<unsigned>(input.gpus))
    return not_good(Grade::kBad, fmt::format("{} {} here, {} {} allocated", count_text(count, "GPU"),
                                             count == 1 ? "is" : "are", input.gpus, input.gpus == 1 ? "was" : "were"));
  CheckResult worst = good(count);
  for (unsigned index = 0; index < count; ++index) {
    CheckResult one = check_one(nvml, index);
    if (one.grade == Grade::kBad) return one;
    if (one.grade == Grade::kWarning && worst.grade == Grade::kGood) worst = std::move(one);
  }
  return worst;
}

}  // namespace dl::preflight
