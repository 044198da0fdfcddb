// SPDX-License-Identifier: Apache-2.0
// Adds up what one learner of an attempt uses, from what its agent reports. Pure.
#pragma once

#include <optional>

#include "launcher/protocol/control_protocol.h"
#include "launcher/use/use_sentence.h"

namespace dl::use {

class LearnerUse {
 public:
  // Reports that JobUse has found to be possible.
  void add(const protocol::Use& report);
  void add(const protocol::GpuUse& report);
  // Without phases, and without what the job as a whole has asked for.
  Facts facts(int gpus, int cpus) const;

 private:
  double gpu_busy_s_ = 0, gpu_time_s_ = 0, sm_busy_s_ = 0, sm_time_s_ = 0, cpu_over_s_ = 0;
  std::optional<double> joules_, gpu_memory_, cpu_s_, most_cpus_, memory_, read_, written_;
  bool joules_lost_ = false;
  int gpus_measured_ = 0;
};

}  // namespace dl::use
