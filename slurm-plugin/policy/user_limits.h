// SPDX-License-Identifier: Apache-2.0
// Counts how many GPUs of a tenant one user may still get, over all jobs, own and borrowed ones (max_user_gpus in
// dl.toml).
#pragma once

#include <map>
#include <utility>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

class UserLimits {
 public:
  // Counts the running jobs of `state` as held. `state` must outlive this.
  explicit UserLimits(const ClusterState& state);

  // False: the tenant has no such limit, or nobody knows whose job it is. Then everything is allowed.
  bool concerns(const Job& job) const;
  int limit(const Job& job) const { return state_.tenants[job.tenant].max_user_gpus; }
  // GPUs of the job's tenant that its user holds; counts only jobs that the limit concerns.
  int held(const Job& job) const;
  // How many more learners of this job its user may hold; at most the job's maximum.
  int room(const Job& job) const;
  // Learners that the job may start with: at most its maximum; 0 if fewer than its minimum.
  int most_learners(const Job& job) const;
  bool allows(const Job& job) const { return most_learners(job) > 0; }
  void hold(const Job& job, int gpus);  // counts `gpus` more as held by the job's user

 private:
  const ClusterState& state_;
  std::map<std::pair<int, int>, int> held_;  // by tenant and user
};

}  // namespace dl::policy
