// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/sizes/why_size.h"

#include <fmt/core.h>

#include <algorithm>

#include "slurm-plugin/policy/free_gpus.h"

namespace dl::policy {
namespace {

// The fastest speed with so many learners; 0: not known.
double speed_at(const JobSpeeds& known, int learners) {
  double best = 0;
  for (const SizeSpeed& speed : known.speeds)
    if (speed.learners == learners) best = std::max(best, speed.speed);
  return best;
}

// Why a job whose size may be changed now is not changed.
std::string why_it_rests(const ClusterState& state, const Job& job, const JobSpeeds& known, double least_gain) {
  const int now = job.learners();
  const double speed_now = speed_at(known, now);
  int larger = 0;
  for (const SizeSpeed& speed : known.speeds)
    if (speed.learners > now && (larger == 0 || speed.learners < larger)) larger = speed.learners;
  if (now == known.wanted) return "as many as its learners vote for";
  if (now >= job.max_learners) return "it may not have more";
  if (speed_now <= 0) return "as it started, since its speed at this size is not known yet";
  if (larger == 0) return "larger sizes are tried when it has run at the present one";
  const double gain = speed_at(known, larger) / speed_now;
  const std::string text = known.wanted > 0
                               ? fmt::format("its learners vote for {}, ", known.wanted)
                               : fmt::format("with {} it would train {:.2f} times as fast, ", larger, gain);
  if (gain < 1 + least_gain) return text + "which is not worth a restart";
  const int type = state.type_held(job);
  const bool wanted = std::any_of(state.jobs.begin(), state.jobs.end(), [&](const Job& other) {
    return !other.running && (other.type == kAnyType || other.type == type);
  });
  if (wanted) return text + "but other jobs wait for GPUs";
  const FreeGpus free(state);
  if (free.total(type) < (larger - now) * job.gpus_per_learner) return text + "but no GPUs are free for that";
  return text + "which is not worth a restart within the limits of its tenant";
}

}  // namespace

std::string why_size(ClusterState* state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options, int job) {
  const Job& it = state->jobs[job];
  if (!it.running || !it.elastic()) return "";
  const std::string has =
      fmt::format("it has {} of {} to {} learners: ", it.learners(), it.min_learners, it.max_learners);
  if (!it.pausable || it.tier != Tier::kAuto)
    return has + "as it started, since only jobs of tier auto that can save are resized";
  const auto known = std::find_if(speeds.begin(), speeds.end(), [job](const JobSpeeds& one) { return one.job == job; });
  if (known == speeds.end()) return has + "as it started, since nothing is known of its speed yet";
  const int64_t rests_s = it.start_s + rest_s(*state, it, options) - state->now_s;
  if (rests_s > 0)
    return has + fmt::format("it started {} s ago, and is resized in {} s at the earliest", state->now_s - it.start_s,
                             rests_s);
  for (const Resize& resize : decide_steadily(state, speeds, options).resizes)
    if (resize.job == job)
      return has + fmt::format("it is about to start again with {}, {}", learners_of(resize.parts),
                               known->wanted > 0 ? fmt::format("since its learners vote for {}", known->wanted)
                                                 : "which lets its tenant's jobs end sooner");
  return has + why_it_rests(*state, it, *known, options.least_gain);
}

}  // namespace dl::policy
