// SPDX-License-Identifier: Apache-2.0
// Pending jobs that fit their tenant's own quota: they start on free GPUs, or take back what others borrow, or wait
// until borrowers are no longer protected (decide.h, 2). Guaranteed ones take back within their tenant too
// (own_tenant.h).
#pragma once

#include <vector>

#include "slurm-plugin/policy/round.h"

namespace dl::policy {

// Running jobs that leave their tenant's quota to its guaranteed jobs.
struct Displaced {
  std::vector<Leaving> now;       // charged as borrowed from now on
  std::vector<Leaving> kept_out;  // those, and jobs that must not move into quota that a waiting one will need
};

// Decides on the claims in round->queue. Jobs on which nothing was decided stay in the queue.
Displaced serve_claims(Round* round);

}  // namespace dl::policy
