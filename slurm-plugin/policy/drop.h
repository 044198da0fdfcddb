// SPDX-License-Identifier: Apache-2.0
// Which waiting jobs are not admitted where the site's admission policy is `drop` (dl.toml, [elastic] admission). As in
// elastic/admit.h: a new job is admitted if the smallest sizes of all jobs that were admitted before it, and its own,
// fit together. Here all that run, start, or were promised something count as admitted, and so do jobs within their
// tenant's quota; then come the others, the oldest first. One that is not admitted would not start before others end,
// however much the elastic ones shrink. Pure.
//
// A job is dropped only if it
//   - is elastic (where MIN = MAX everywhere nobody is dropped), and no element of a job array
//   - would borrow: it is not within what its tenant's quota has left, and no guaranteed job
//   - has never begun, and was promised nothing
//   - was submitted a while ago, but less than kDropWithinS before that: whoever has waited longer was admitted. So
//     nobody is dropped of a queue that is there when the site asks for it, or when dlpolicyd starts again.
// GPUs of all nodes count, also of those that are down: nobody is dropped because of these. Places on nodes, borrowing
// limits, and GPUs that their owners do not lend do not count either; for these a job waits.
#pragma once

#include <cstdint>
#include <vector>

#include "slurm-plugin/policy/decide.h"

namespace dl::policy {

constexpr int64_t kDropWithinS = 600;

struct Drop {
  int job = 0;       // index into the state's jobs
  int gpus = 0;      // that it needs at its smallest size
  int64_t room = 0;  // the most GPUs of a type that it may use that the jobs before it leave, at their smallest sizes
};

// The jobs that are dropped, the oldest first. decision: decide(state). begun: by job, whether it has ever run or given
// something up; such jobs count as admitted. after_s: how long a job waits before that.
std::vector<Drop> not_admitted(const ClusterState& state, const Decision& decision, const std::vector<char>& begun,
                               int64_t after_s);

}  // namespace dl::policy
