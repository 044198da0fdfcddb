// SPDX-License-Identifier: Apache-2.0
// A plan for tests of what watches over an attempt or judges it.
#pragma once

#include <string>

#include "launcher/plan/launch_plan.h"

namespace dl::supervise {

// Each learner is on a node of its own: "n0", "n1", …
inline plan::LaunchPlan plan_of(int learners) {
  plan::LaunchPlan plan;
  for (int rank = 0; rank < learners; ++rank) {
    plan::PlannedNode node;
    node.name = "n" + std::to_string(rank);
    plan.nodes.push_back(node);
    plan::PlannedLearner learner;
    learner.rank = learner.node = rank;
    plan.learners.push_back(learner);
  }
  return plan;
}

}  // namespace dl::supervise
