// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "common/contract/batch_split.h"
#include "launcher/plan/launch_plan.h"

namespace dl::plan {

Status choose_batch(const Request& request, LaunchPlan* plan) {
  plan->batch = request.batch;
  if (!plan->batch) return {};
  auto split = split_of_job(*plan->batch, plan->asked.min, plan->learner_count());
  if (!split) return std::move(split).error().with_context("--batch");
  plan->split = *split;
  return {};
}

}  // namespace dl::plan
