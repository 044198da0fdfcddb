// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/sm_activity.h"

#include <algorithm>
#include <memory>

namespace dl::agent {

SmActivity::SmActivity(const Nvml& nvml)
    : support_(nvml.function<int(Nvml::Device, Support*)>("nvmlGpmQueryDeviceSupport")),
      allocate_(nvml.function<int(Sample*)>("nvmlGpmSampleAlloc")),
      free_(nvml.function<int(Sample)>("nvmlGpmSampleFree")),
      take_(nvml.function<int(Nvml::Device, Sample)>("nvmlGpmSampleGet")),
      ask_(nvml.function<int(Question*)>("nvmlGpmMetricsGet")) {}

SmActivity::~SmActivity() {
  for (Watched& gpu : gpus_) forget(&gpu);
}

void SmActivity::forget(Watched* gpu) const {
  for (Sample* sample : {&gpu->from, &gpu->to})
    if (*sample != nullptr) free_(std::exchange(*sample, nullptr));
}

bool SmActivity::begin(Watched* gpu) const {
  if (support_ == nullptr || allocate_ == nullptr || free_ == nullptr || take_ == nullptr || ask_ == nullptr)
    return false;
  Support support;
  if (support_(gpu->device, &support) != Nvml::kSuccess || support.supported == 0) return false;
  return allocate_(&gpu->from) == Nvml::kSuccess && allocate_(&gpu->to) == Nvml::kSuccess;
}

// Less than 0 and no samples any more: it is not to be had.
double SmActivity::look(Watched* gpu) {
  constexpr unsigned kSmUtil = 2;  // NVML_GPM_METRIC_SM_UTIL: per cent
  if (gpu->from == nullptr) return -1;
  if (take_(gpu->device, gpu->to) != Nvml::kSuccess) {
    forget(gpu);
    return -1;
  }
  double percent = -1;
  if (gpu->told) {
    const auto question = std::make_unique<Question>();
    question->count = 1;
    question->from = gpu->from;
    question->to = gpu->to;
    question->metrics[0].id = kSmUtil;
    const Metric& answer = question->metrics[0];
    if (ask_(question.get()) == Nvml::kSuccess && answer.result == Nvml::kSuccess && answer.value >= 0 &&
        answer.value <= 100.5)
      percent = std::min(answer.value, 100.0);
    // Some drivers know of GPM, but may not tell it to this user: that does not change.
    if (percent < 0) {
      forget(gpu);
      return -1;
    }
  }
  gpu->told = true;
  std::swap(gpu->from, gpu->to);
  return percent;
}

double SmActivity::percent(Nvml::Device device) {
  auto known = std::find_if(gpus_.begin(), gpus_.end(), [&](const Watched& one) { return one.device == device; });
  if (known == gpus_.end()) {
    known = gpus_.insert(gpus_.end(), Watched{device});
    if (!begin(&*known)) forget(&*known);
  }
  return look(&*known);
}

}  // namespace dl::agent
