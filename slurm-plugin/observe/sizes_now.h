// SPDX-License-Identifier: Apache-2.0
// How fast the elastic jobs of a view are at each of their sizes, by what their dlrun wrote into their comments
// (common/scaling/scale_hint.h) and the model that is fitted to it (common/scaling/model.h). Pure.
//
// A job that has run at few sizes is tried at neighbouring ones: sizes count from half of its smallest measured one to
// twice its largest one. For those the model guesses, and its guesses are rather too fast than too slow; once the job
// has run at a size, what was measured counts.
#pragma once

#include <vector>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/sizes/sizes.h"

namespace dl::observe {

// Time that Slurm needs for a requeue and a new start, on top of what dlrun measures of its start.
constexpr int64_t kRequeueS = 3;

// One for each elastic job that can be resized through the queue and of which something was measured: those that Slurm
// starts with a number of nodes from a range, with the same number of learners on each. Writes what a restart costs
// such a job into view->state. The result passes policy::check().
std::vector<policy::JobSpeeds> sizes_now(const Records& records, ClusterView* view);

}  // namespace dl::observe
