// SPDX-License-Identifier: Apache-2.0
// What follows when agents are silent; and what the train steps of an attempt say about how its job scales.
#include <fmt/core.h>

#include "common/base/parse.h"
#include "launcher/supervise/scaling_watch.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

void Supervisor::agents_silent(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    const Learner& learner = attempt_.learner(rank);
    if (learner.ended) continue;
    attempt_.silence_agent(rank);
    agents_->let_go(rank);
    Failure failure;
    failure.kind = Failure::Kind::kAgentLost;
    failure.asked = state_.ending();
    failure.text = fmt::format("its agent (dl-agent) on {} has said nothing for {}, though its node answers",
                               learner.host, format_duration(site_.agent_timeout));
    learner_failed(rank, failure);
  }
  check_attempt_over();
}

void Supervisor::look_at_scaling(bool last) {
  if (plan().servers > 0) return;  // learners beside parameter servers scale by another formula
  scaling_->look(dir_, scaling_record_of(plan()), attempt_.learners(), awake_ms(), attempt_.started_ms(), last);
  if (!scaling_->hint().empty()) journal_->scale(scaling_->hint());
}

}  // namespace dl::supervise
