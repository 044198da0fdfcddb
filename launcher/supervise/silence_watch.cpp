// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/silence_watch.h"

#include "common/base/awake_clock.h"

namespace dl::supervise {

void SilenceWatch::look(int64_t now_ms) {
  if (!state_.learners_under_way() || agents_->silent(now_ms, limit_ms_, attempt_.learners()).empty()) return;
  agents_->silence_is_asked_about();
  slurm_->ask([this, attempt = attempt_.facts().attempt](const SlurmJob::Answer& job) {
    const bool of_this = attempt == attempt_.facts().attempt && state_.learners_under_way();
    agents_->silence_is_known(of_this && job && job->state == "SUSPENDED", awake_ms());
    if (of_this) found_(agents_->silent(awake_ms(), limit_ms_, attempt_.learners()));
  });
}

}  // namespace dl::supervise
