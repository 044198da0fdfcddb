// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/silence_watch.h"

#include <fmt/core.h>

#include "common/base/awake_clock.h"
#include "common/base/parse.h"

namespace dl::supervise {

void SilenceWatch::look(int64_t now_ms) {
  const int64_t limit_ms = 1000 * limit_.count();
  if (!state_.learners_under_way() || agents_->silent(now_ms, limit_ms, attempt_.learners()).empty()) return;
  agents_->silence_is_asked_about();
  slurm_->ask([this, limit_ms, attempt = attempt_.facts().attempt](const SlurmJob::Answer& job) {
    const bool of_this = attempt == attempt_.facts().attempt && state_.learners_under_way();
    agents_->silence_is_known(of_this && job && job->state == "SUSPENDED", awake_ms());
    if (!of_this) return;
    for (const int rank : agents_->silent(awake_ms(), limit_ms, attempt_.learners())) {
      Failure failure;
      failure.rank = rank;
      failure.kind = Failure::Kind::kAgentLost;
      failure.asked = state_.ending();
      failure.text = fmt::format("its agent (dl-agent) on {} has said nothing for {}, though its node answers",
                                 attempt_.learner(rank).host, format_duration(limit_));
      found_(failure);
    }
  });
}

}  // namespace dl::supervise
