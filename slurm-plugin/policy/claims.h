// SPDX-License-Identifier: Apache-2.0
// Pending jobs that fit their tenant's own quota: they start on free GPUs, or take back what others borrow, or wait for
// those that are still protected (decide.h, 2). A guaranteed one takes back within its own tenant too (own_tenant.h).
#pragma once

#include <vector>

#include "slurm-plugin/policy/round.h"

namespace dl::policy {

// Running jobs that guaranteed ones of their tenant keep out of its quota, as indexes into the state's jobs.
struct Displaced {
  std::vector<int> now;       // charged as borrowed from now on
  std::vector<int> kept_out;  // not moved into the quota, which one that waits will need
};

// Decides on the claims in round->queue, and leaves there whom nothing was decided for.
Displaced serve_claims(Round* round);

}  // namespace dl::policy
