// SPDX-License-Identifier: Apache-2.0
// How fast the elastic jobs of a view are at each of their sizes, by what their dlrun wrote into their comments
// (common/scaling/scale_hint.h) and the model that is fitted to it (common/scaling/model.h). Pure.
//
// Besides the sizes at which a job has run, it gets speeds for other ones: from half of the smallest size measured to
// twice the largest one. For these the model guesses, rather too fast than too slow, so that jobs are tried at new
// sizes. Once a job has run at a size, what was measured there is used.
//
// Where the learners of a job vote for a number W of learners (common/contract/vote_hint.h), the application knows
// better than its train steps do, as when its loader stalls or one of its servers is too busy: then its speed counts as
// n with n <= W learners, and as W * W / n with more. So it is moved to W as far as limits, other jobs and the cost of
// the change allow, on what its tenant holds or nobody waits for, and it gives up what it says it does not need. It
// counts as no faster than a job that scales without loss, so one that lies gains nothing at the cost of other tenants.
#pragma once

#include <vector>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/sizes/sizes.h"

namespace dl::observe {

// Time that Slurm needs for a requeue and a new start, on top of what dlrun measures of its start.
constexpr int64_t kRequeueS = 3;

// Returns one entry for each elastic job that votes, or of which something was measured, and that can be resized
// through the queue: Slurm starts it with a number of nodes from a range, and it has as many learners on each node.
// Also writes into view->state what a restart costs such a job. The result passes policy::check().
std::vector<policy::JobSpeeds> sizes_now(const Records& records, ClusterView* view);

}  // namespace dl::observe
