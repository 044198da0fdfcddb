// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "common/contract/batch_split.h"
#include "launcher/plan/launch_plan.h"

namespace dl::plan {

Status choose_batch(const Request& request, LaunchPlan* plan) {
  plan->batch = request.batch;
  if (!plan->batch) return {};
  const int learners = plan->learner_count();
  auto split =
      split_batch(*plan->batch, learners, batch_target(*plan->batch, std::min(plan->asked.min, learners), learners));
  if (!split) return std::move(split).error().with_context("--batch");
  plan->split = *split;
  return {};
}

}  // namespace dl::plan
