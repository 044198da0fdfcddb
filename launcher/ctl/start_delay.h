// SPDX-License-Identifier: Apache-2.0
// Decides when a released job may start, for `dlctl resume`.
#pragma once

#include <cstdint>
#include <optional>

namespace dl::ctl {

// A job must not start in the same second in which its last run was ended: slurmd has revoked the job's credentials up
// to that second, so it kills the new run with "Job credential revoked", and the job is lost (seen in 22.05.8). Of a
// job that is PENDING and not COMPLETING, all processes of its last run are gone, so the next full second is late
// enough. `eligible_s` is the begin time that Slurm shows; both are Unix times in seconds.
//   past or unknown -> false: it may start at once
//   ahead           -> true: it was requeued a moment ago (dlrun sets a few seconds, Slurm two minutes)
bool starts_next_second(std::optional<int64_t> eligible_s, int64_t now_s);

// Returns in the next full second of the wall clock, after at most one second.
void wait_for_next_second();

}  // namespace dl::ctl
