// SPDX-License-Identifier: Apache-2.0
// Growth after growth: which of the jobs that have companions (in_place.h) are offered still more whole free nodes, for
// another companion. What a job would gain is asked of the optimiser with the job and its companions as one job;
// whether it may have the nodes is decided as for its first companion, on the state as it is. Pure.
#pragma once

#include <vector>

#include "slurm-plugin/policy/sizes/in_place.h"

namespace dl::policy {

// A running job and its companions, all of which run, as indexes into the state's jobs.
struct Grown {
  int job = 0;
  std::vector<int> companions;
};

// A state in which jobs are one with their companions.
struct Joined {
  ClusterState state;
  std::vector<int> index;    // by job of the other state: its index in this one; kNobody: it is part of another job
  std::vector<Grown> grown;  // those that are joined, as indexes into the other state
};

// Leaves out those whose companions have no whole number of learners, or hold other GPUs than the job, and those that
// have more learners than they may, or as many companions (kMostCompanions). Precondition: check(state) holds; then it
// holds for the result.
Joined with_companions(const ClusterState& state, const std::vector<Grown>& grown);

// Which of joined.grown are offered nodes now. speeds: of jobs of joined->state, those that may become larger.
// decision: decide() of `state`, in which nothing starts and nobody is asked to yield, nor is any job resized beside
// it: growth after growth comes last. may: by job of the state. joined->state is as before when it returns.
std::vector<Growth> grow_further(const ClusterState& state, const Decision& decision, const std::vector<MayGrow>& may,
                                 const std::vector<JobSpeeds>& speeds, const SizeOptions& options, Joined* joined);

}  // namespace dl::policy
