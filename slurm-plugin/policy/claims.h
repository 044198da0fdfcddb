// SPDX-License-Identifier: Apache-2.0
// Pending jobs that fit their tenant's own quota: they start on free GPUs, or take back what others borrow, or wait for
// those that are still protected (decide.h, 2). A guaranteed one takes back within its own tenant too (own_tenant.h).
#pragma once

#include <vector>

#include "slurm-plugin/policy/round.h"

namespace dl::policy {

// What guaranteed jobs take of the quota that running ones of their tenant have.
struct Displaced {
  std::vector<Leaving> now;       // charged as borrowed from now on
  std::vector<Leaving> kept_out;  // and these with them: not moved into the quota, which one that waits will need
};

// Decides on the claims in round->queue, and leaves there whom nothing was decided for.
Displaced serve_claims(Round* round);

}  // namespace dl::policy
