// SPDX-License-Identifier: Apache-2.0
// Who gets idle GPUs next: the tenant that borrows, and lately borrowed, the least for its weight.
#pragma once

#include "slurm-plugin/policy/ledger.h"

namespace dl::policy {

// A tenant's decayed use in GPU-seconds, after `elapsed_s` more seconds in which it held `gpus` GPUs (weighted by
// type). After each half-life use counts half as much as before; with a half-life of 0 it counts nothing.
double decayed_use(double recent_gpu_s, double gpus, int64_t elapsed_s, int64_t half_life_s);

// GPU-seconds that a running job has borrowed since its start, decayed until now; 0 if it is charged as its tenant's
// own.
double use_since_start(const ClusterState& state, const Job& job);

// (GPUs borrowed now + GPUs borrowed on average lately) / weight. The average is the number of GPUs whose steady use
// would have left the tenant's decayed use. The tenant with the smallest key comes first; infinite for a weight of 0.
// `more`: further GPUs, weighted by type, to count as borrowed.
double fair_key(const ClusterState& state, const Ledger& ledger, int tenant, double more = 0);

}  // namespace dl::policy
