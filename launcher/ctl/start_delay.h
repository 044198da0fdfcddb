// SPDX-License-Identifier: Apache-2.0
// Decides when a released job may start, for `dlctl resume`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace dl::ctl {

// A job must not start in the same second in which its last run was ended: slurmd has revoked the job's credentials up
// to that second, so it kills the new run with "Job credential revoked", and the job is lost (seen in 22.05.8).
// `eligible_s` is the begin time that Slurm shows; both are Unix times in seconds. Returns the begin time to set, from
// now:
//   past or unknown                   -> 0: at once
//   at most kRequeueDelayEpilog ahead -> nothing to set: dlrun has just put it back, and chose this time itself
//   further ahead (Slurm's 2 min after somebody else's requeue) -> 2 s
std::optional<std::chrono::seconds> start_delay(std::optional<int64_t> eligible_s, int64_t now_s);

}  // namespace dl::ctl
