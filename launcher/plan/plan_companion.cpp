// SPDX-License-Identifier: Apache-2.0
// Plans with nodes of companions: other allocations of the job's user, whose nodes the job uses like its own.
#include <algorithm>
#include <utility>

#include "common/base/count.h"
#include "launcher/plan/launch_plan.h"

namespace dl::plan {

Status check_own_nodes(const LaunchPlan& plan) {
  if (std::any_of(plan.nodes.begin(), plan.nodes.end(), [](const PlannedNode& node) { return node.companion.empty(); }))
    return {};
  return Error{Errc::kConflict, "no node of the job itself holds a learner"};
}

Result<LaunchPlan> make_plan_with(const std::vector<Node>& nodes, const LaunchPlan& plan, PlanInput* input) {
  std::vector<Node>& there = input->allocation.nodes;
  for (const Node& node : nodes)
    if (std::any_of(there.begin(), there.end(), [&](const Node& own) { return own.name == node.name; }))
      return Error{Errc::kConflict, "the job has node " + node.name + " already"};
  const PlanInput before = *input;
  there.insert(there.end(), nodes.begin(), nodes.end());
  Result<LaunchPlan> larger = make_plan(*input);
  if (larger && larger->learner_count() <= plan.learner_count())
    larger = Error{Errc::kConflict, "with " + count_text(static_cast<int64_t>(nodes.size()), "more node") +
                                        " the job would have no more learners than the " +
                                        std::to_string(plan.learner_count()) + " that it has"};
  if (!larger) *input = before;
  return larger;
}

}  // namespace dl::plan
