// SPDX-License-Identifier: Apache-2.0
// The order in which a search among very many borrowers looks at them. Pure.
#pragma once

#include <vector>

#include "slurm-plugin/policy/free_gpus.h"

namespace dl::policy {

// Returns those of `borrowers` (indexes of running jobs) that have GPUs of `type`, in this order: the least loss per
// borrowed GPU first, of equal ones the youngest. Where a learner takes several GPUs (`size`), they come node after
// node: first those of the node on which room for one learner costs the least loss. `free`: what is free already.
std::vector<int> rank_borrowers(const ClusterState& state, const FreeGpus& free, int type, int size,
                                const std::vector<int>& borrowers);

}  // namespace dl::policy
