// SPDX-License-Identifier: Apache-2.0
// The order in which a search among very many borrowers looks at them. Pure.
#pragma once

#include <vector>

#include "slurm-plugin/policy/free_gpus.h"

namespace dl::policy {

// Of `borrowers` (indexes of running jobs) those with GPUs of `type`, the least loss for each GPU first, of equal ones
// the youngest. Where a learner takes several GPUs (`size`), node after node: those first with which a learner gets its
// place for the least loss. `free`: what is free already.
std::vector<int> rank_borrowers(const ClusterState& state, const FreeGpus& free, int type, int size,
                                const std::vector<int>& borrowers);

}  // namespace dl::policy
