// SPDX-License-Identifier: Apache-2.0
// Carries the sizes of decide_sizes() out little by little, so that it comes to rest: which jobs start smaller, and
// which running jobs are resized now. dlpolicyd and dlsim (lend-sizes) call the same function. Pure.
//
// - A job that starts may start smaller than decide() would let it, so that others of its tenant start beside it.
// - Running jobs become smaller first; others grow in a later decision, on GPUs that are free then. So each resize is
//   worth its cost by itself, and a resize that never happens leaves nothing half done.
// - If a job waits for GPUs of a type, jobs on that type are not resized: the waiting job would get what they give up.
//   There is one exception: jobs within the quota of their tenant may become smaller so that others of this tenant
//   start, since no other tenant may start on its quota.
// - Jobs that would start on what others give up come before jobs that would grow.
// - A job is resized at most once in SizeOptions::each_s, and in kTimesCost times what a resize costs it.
#pragma once

#include "slurm-plugin/policy/sizes/sizes.h"

namespace dl::policy {

// SizeOptions::each_s of dlpolicyd and dlsim.
constexpr int64_t kResizeEachS = 300;

struct SteadySizes {
  Decision decision;  // as decide(), with some starts smaller
  // Sorted by job. Running jobs are to be resized now. Waiting ones are to start, with at most this number of learners,
  // once others have given up what they need.
  std::vector<Resize> resizes;
};

// Preconditions as decide_sizes(). Where no size can be chosen, as where MIN = MAX everywhere, the decision is that of
// decide(). *state is as before when it returns.
SteadySizes decide_steadily(ClusterState* state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options);

}  // namespace dl::policy
