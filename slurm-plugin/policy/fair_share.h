// SPDX-License-Identifier: Apache-2.0
// Who gets idle GPUs next: the tenant that holds and lately held the least beyond its quota, for its weight.
#pragma once

#include "slurm-plugin/policy/ledger.h"

namespace dl::policy {

// A tenant's use after `elapsed_s` more seconds in which it held `gpus` (each type weighed): what was used before
// counts half after each half-life, and so does the use itself as it ages. GPU-seconds.
double decayed_use(double recent_gpu_s, double gpus, int64_t elapsed_s, int64_t half_life_s);

// GPU-seconds that a running job has borrowed since its start, decayed until now; 0 if it is charged as its tenant's
// own.
double use_since_start(const ClusterState& state, const Job& job);

// (GPUs borrowed now + GPUs held on average lately) / weight. The average is the number of GPUs whose steady use would
// have left the tenant's decayed use. The smaller, the earlier; infinite for a weight of 0.
// `more`: GPUs, weighed, that it would hold besides.
double fair_key(const ClusterState& state, const Ledger& ledger, int tenant, double more = 0);

}  // namespace dl::policy
