// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/resizing.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/count.h"
#include "slurm-plugin/observe/sizes_now.h"

namespace dl::policyd {

using policy::Job;

std::string resize_text(const Job& job, int learners) {
  return fmt::format(
      "starts again with {} instead of {}: by the measured speeds, its tenant's jobs end sooner that way",
      count_text(learners, "learner"), job.learners());
}

policy::SteadySizes Resizing::decide(const observe::Records& records, observe::ClusterView* view, int64_t interval_s) {
  const int64_t now_s = view->state.now_s;
  refusals_.tidy(now_s);
  for (size_t i = 0; i < view->jobs.size(); ++i) {
    const Job& job = view->state.jobs[i];
    if (const auto& told = view->jobs[i].label.yields; job.running && told) refusals_.look(job, *told, now_s);
  }
  std::vector<policy::JobSpeeds> speeds = observe::sizes_now(records, view);
  const auto cannot = [&](const policy::JobSpeeds& known) {
    const observe::SeenJob& seen = view->jobs[known.job];
    const Job& job = view->state.jobs[known.job];
    // Only dlrun hears what is asked.
    return !policy::may_choose_size(job, seen.dlrun, seen.label.yields, refusals_.refused(job.id, now_s));
  };
  speeds.erase(std::remove_if(speeds.begin(), speeds.end(), cannot), speeds.end());
  policy::SizeOptions options;
  options.each_s = interval_s;
  return policy::decide_steadily(&view->state, speeds, options);
}

}  // namespace dl::policyd
