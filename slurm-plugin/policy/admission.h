// SPDX-License-Identifier: Apache-2.0
// Admission: can a job ever run here? Asked at submission; looks at what exists and what is allowed, not at what is
// busy.
#pragma once

#include <string>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

enum class Excess {
  kNothing,      // admitted
  kNodeGpus,     // one learner needs more GPUs than any node has
  kClusterGpus,  // more learners than all nodes hold
  kJobLimit,     // more GPUs than one job of the tenant may have
  kUserLimit,    // more GPUs than one user of the tenant may have
  kQuota,        // a guaranteed job of more GPUs than the tenant's quota
  kBorrowLimit,  // more than the tenant's quota plus what it may borrow
  kLendable,     // more than the quota plus what other tenants ever lend
};

struct Admission {
  Excess excess = Excess::kNothing;
  int asked = 0;    // GPUs
  int allowed = 0;  // GPUs: the limit that was exceeded
  std::string sentence;

  bool admitted() const { return excess == Excess::kNothing; }
};

// Judges the job at its smallest size. A job that names no type is admitted if it can run on some type; else the
// refusal is that of the type that allows most. The job need not be among the state's jobs, but its tenant and type
// must exist. With nodes_known = false only limits and quotas are checked: not the nodes, nor what others lend.
Admission admit(const ClusterState& state, const Job& job);

}  // namespace dl::policy
