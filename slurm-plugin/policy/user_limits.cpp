// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/user_limits.h"

#include <algorithm>

namespace dl::policy {

UserLimits::UserLimits(const ClusterState& state) : state_(state) {
  for (size_t i = state.first_running; i < state.jobs.size(); ++i)
    if (const Job& job = state.jobs[i]; job.running) hold(job, job.gpus());
}

bool UserLimits::concerns(const Job& job) const {
  return job.user != kNobody && limit(job) != kNoLimit;
}

int UserLimits::held(const Job& job) const {
  const auto found = held_.find({job.tenant, job.user});
  return found == held_.end() ? 0 : found->second;
}

int UserLimits::room(const Job& job) const {
  if (!concerns(job)) return job.max_learners;
  return std::min(job.max_learners, std::max(0, limit(job) - held(job)) / job.gpus_per_learner);
}

int UserLimits::most_learners(const Job& job) const {
  const int learners = room(job);
  return learners >= job.min_learners ? learners : 0;
}

void UserLimits::hold(const Job& job, int gpus) {
  if (concerns(job)) held_[{job.tenant, job.user}] += gpus;
}

}  // namespace dl::policy
